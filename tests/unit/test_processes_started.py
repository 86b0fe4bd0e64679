"""How many processes a run starts: as its launcher or its command says, never its GPUs' number."""

from typing import Any

import pytest

from runners.lifecycle.launch.command_line import _STDBUF
from tests.support import make_plan
from tui.views.runs.run_text import processes_started

FOUR_GPUS = 4


@pytest.mark.parametrize(
    ("launcher", "argv", "expected"),
    [
        ("command", ("python3", "pl_train.py", "default"), 1),
        ("command", (*_STDBUF, "python3", "train.py"), 1),
        ("command", ("torchrun", "--nproc_per_node=7", "train.py"), 7),
        ("command", ("bash", "train.sh"), None),
        ("torchrun", ("torchrun", "--nproc-per-node=4", "train.py"), FOUR_GPUS),
        ("python", ("python3", "train.py"), 1),
    ],
)
def test_processes_are_those_that_are_started(
    launcher: Any, argv: tuple[str, ...], expected: int | None
) -> None:
    plan = make_plan(launcher=launcher, argv=argv, processes=FOUR_GPUS)
    assert processes_started(plan) == expected
