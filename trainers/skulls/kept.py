"""Made-up skulls kept for the next run: made once a user and machine, then copied.

They lie in $XDG_CACHE_HOME/fresnel-tui/made_up (~/.cache without it), by what decides them: layout,
size, points, seed and the programs that make them. The folder may be deleted at any time.
"""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

from trainers.common.files import expanded

MAKERS = ("made_up.py", "surfaces.py", "poisson_disc.py", "volumes.py")
"""A change in one of these makes other skulls, which are kept apart."""


def kept_folder(*decided_by: object) -> Path | None:
    """Return the folder of skulls decided by these words, or None where it cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if Path(base).is_absolute() else expanded("~/.cache")
    if not home.is_absolute():
        return None  # nobody's home folder is known
    here = Path(__file__).parent
    made_by = zlib.crc32(b"".join((here / name).read_bytes() for name in MAKERS))
    name = "-".join(map(str, (*decided_by, f"{made_by:08x}")))
    folder = home / "fresnel-tui" / "made_up" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def bring(kept: Path, root: Path, names: list[Path]) -> None:
    """Copy kept files of these names to root where there are none yet.

    No links: who changes a file of a run must not change it for all.
    """
    for name in names:
        target = root / name
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{os.getpid()}.{target.name}")
            shutil.copyfile(kept / name, draft)
            draft.replace(target)
