"""What a run is called: an id that sorts by time, reads well, and is one component of a path."""

import os
import re
import time

_READABLE = 40
_ID = re.compile(rf"\d{{8}}-\d{{6}}-[A-Za-z0-9][A-Za-z0-9._-]{{0,{_READABLE - 1}}}-[0-9a-f]{{4}}")
_OTHERS = re.compile(r"[^A-Za-z0-9._]+")


def new_run_id(name: str) -> str:
    """An id for a run of this name: 20261120-231502-gaussian-validate-7f3a."""
    readable = _OTHERS.sub("-", name).strip("-._")[:_READABLE] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{readable}-{os.urandom(2).hex()}"


def is_run_id(text: str) -> bool:
    """Whether a run may be called so: nothing else ever names a folder or a file of a run's."""
    return _ID.fullmatch(text) is not None
