"""Starting the process that asks whether this machine is taken away; by front ends and watchers."""

import os
import time
from functools import partial

from runners.host import helpers
from runners.host.keep_alive import KeepAlive
from runners.host.locks import is_held
from runners.model.errors import FresnelError
from runners.state.layout import StateDirectory, settings_file
from runners.state.leases import live_run_ids

_ANEW_S = 20.0


def ensure_preemption_watch(state: StateDirectory) -> bool:
    """Start it where it is allowed and has a use, and does not run; True then. Raises OSError."""
    if not state.session.exists() and not live_run_ids(state):
        return False
    if not _may_be_allowed() or is_held(state.preemption_lock) or not _is_allowed():
        return False
    start = partial(helpers.spawn, "preemption", state.root)
    keep_alive = KeepAlive(state.preemption_lock, start, _ANEW_S)
    now = time.monotonic()
    if keep_alive.wait_s(now) > 0:
        return False
    keep_alive.start(now)
    return True


def _may_be_allowed() -> bool:
    """False where nobody has said anything of metadata, without reading YAML: that takes long."""
    if os.environ.get("FRESNEL_METADATA"):
        return True
    try:
        return b"metadata" in settings_file().read_bytes()
    except OSError:
        return False


def _is_allowed() -> bool:
    from runners.cost.cloud import metadata_base  # most never get here

    try:
        return bool(metadata_base())
    except FresnelError:
        return False  # the settings' mistake is said where they are read for their own sake
