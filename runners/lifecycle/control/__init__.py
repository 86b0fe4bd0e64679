"""The use cases: what front ends ask of runs. One file per action."""

from runners.lifecycle.control.adopt import adopt_orphans
from runners.lifecycle.control.start import preview, start, start_together
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.control.wait import wait_until_ended

__all__ = ["adopt_orphans", "preview", "request_stop", "start", "start_together", "wait_until_ended"]
