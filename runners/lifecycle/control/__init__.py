"""The use cases: what front ends ask of runs. One file per action, imported when it is first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runners.lifecycle.control.adopt import adopt_orphans
    from runners.lifecycle.control.again import spec_again
    from runners.lifecycle.control.start import preview, start_together
    from runners.lifecycle.control.stop import request_stop
    from runners.lifecycle.control.wait import wait_until_ended

__all__ = ["adopt_orphans", "preview", "request_stop", "spec_again", "start_together", "wait_until_ended"]

_FILES = {
    "adopt_orphans": "adopt",
    "preview": "start",
    "request_stop": "stop",
    "spec_again": "again",
    "start_together": "start",
    "wait_until_ended": "wait",
}


def __getattr__(name: str) -> Any:
    """The action `name` from its file: a panel that launches nothing never reads how to plan a launch."""
    if name not in _FILES:
        raise AttributeError(f"no action {name}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
