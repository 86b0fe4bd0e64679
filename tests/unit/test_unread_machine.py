"""The GPU pane of a machine of which nothing has come yet."""

import time

from runners.model.gpus import UNREAD, GpuReading
from tui.panel.widgets.gpu.pane import _titles


def test_a_machine_that_was_never_read_is_neither_without_gpus_nor_stale() -> None:
    unread = GpuReading(time=0.0, host="amd", backend=UNREAD)
    assert _titles(unread, 80, "amd") == ("GPUs · amd", "")
    read_long_ago = GpuReading(time=time.time() - 3600, host="amd", backend="none")
    title, age = _titles(read_long_ago, 80, "amd")
    assert title.startswith("CPU") and age.startswith("stale since")
