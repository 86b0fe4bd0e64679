"""Whether the machine has a processor to spare, for work that nobody waits for."""

import os
import re
from pathlib import Path

from runners.host.files import read_text

_PRESSURE = Path("/proc/pressure/cpu")
_SOME = re.compile(r"some avg10=([\d.]+)")
_BUSY_PERCENT = 10.0


def is_busy() -> bool:
    """Whether processes had to wait for a processor for a tenth of the last ten seconds.

    Where the kernel does not tell that, by more processes than processors (load average).
    """
    found = _SOME.match(read_text(_PRESSURE))
    if found is not None:
        return float(found[1]) >= _BUSY_PERCENT
    return os.getloadavg()[0] > (os.cpu_count() or 1)
