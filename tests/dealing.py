"""How tests are dealt to several workers: what shares a slow fixture goes to one of them."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    *("tests/trainers/", "tests/unit/", "tests/architecture/", "tests/pairs/"),
    "tests/ui/test_stories.py",
)
"""Rooms and files that stay whole: trainings and panels are shared by the tests of a file; what
takes milliseconds is not worth dealing one by one.
"""


class ByFileOrTest(LoadScopeScheduling):
    """Whole files of some rooms, those with the most tests first; then single tests, which even
    out what the workers have left.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid


def make_scheduler(config: Any, log: Any) -> ByFileOrTest | None:
    """The scheduler, unless another way to deal was asked for by `--dist`."""
    return ByFileOrTest(config, log) if config.getvalue("dist") == "load" else None
