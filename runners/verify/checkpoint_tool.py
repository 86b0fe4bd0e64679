"""Asking the checkpoint tool: a process of the run's own interpreter that opens checkpoints.

Unpickling needs that interpreter's torch and can run any code, which must not be in this process.
"""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from runners.host.run_in_time import run_in_time
from runners.state.layout import TRAINERS

_TOOL = TRAINERS / "common" / "checkpoint_tool.py"


class CheckpointToolError(Exception):
    """The tool did not do what was asked.

    `answered` is True when it says itself why, False when it could not be run or broke off.
    """

    def __init__(self, message: str, answered: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.answered = answered


def ask_checkpoint_tool(
    interpreter: str,
    request: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    patience_s: float | None = None,
) -> list[dict[str, Any]]:
    """The tool's answer, an object a file; the environment is ours where none is given.

    Raises CheckpointToolError, TimeoutExpired after `patience_s`, and OSError when the interpreter
    cannot be started.
    """
    done = run_in_time(
        [interpreter, str(_TOOL), json.dumps(request)],
        patience_s,
        env=None if environment is None else dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        errors = done.stderr.decode("utf-8", "replace")
        last = (errors.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise CheckpointToolError(last) from None
    if isinstance(found, dict):
        raise CheckpointToolError(str(found.get("error", "no answer")), answered=True)
    return list(found)
