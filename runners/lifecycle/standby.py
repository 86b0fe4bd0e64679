"""Waiting in the queue: asleep until poked, first in line looking around for itself, then spelled out and started.

Standard library only: the supervisor imports it. What needs more (choosing GPUs, spelling out a plan) is done
by short-lived processes.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from runners.host.files import read_json
from runners.lifecycle.wakes import Wakes
from runners.model.paths import ROOT, RunDirectory, config_dir

_FIRST_LOOKS_EVERY_S = 5.0
_OTHERS_LOOK_EVERY_S = 60.0
_CALL = "import sys; sys.path.insert(0, sys.argv[1]); from runners.{0} import main; main()"


class Refused(Exception):
    """The run can never start; the message says why."""


def wait_for_grant(run: RunDirectory, wakes: Wakes) -> dict[str, Any] | None:
    """Sleep until the queue grants the run its GPUs; its granted plan, or None when a stop came first."""
    while not run.stop.exists():
        plan = read_json(run.plan)
        if plan is not None and not plan.get("queued"):
            return plan
        waits = read_json(run.waits) or {}
        if waits.get("never"):
            raise Refused(str(waits.get("reason", "it can never start")))
        # The first in line looks for what nobody pokes for: a stranger leaving a GPU, a supervisor killed.
        wakes.sleep(_FIRST_LOOKS_EVERY_S if waits.get("place", 1) == 1 else _OTHERS_LOOK_EVERY_S)
        if not run.stop.exists() and (read_json(run.plan) or {}).get("queued"):
            call("lifecycle.queue", run.path.parent.parent)
    return None


def spell_out(run: RunDirectory) -> dict[str, str]:
    """Rewrite the plan for the granted GPUs; the program's environment. Refused says what no longer exists."""
    code, output = call("lifecycle.prepare", run.path)
    try:
        answer = json.loads(output)
    except ValueError:
        raise Refused(f"could not be prepared (exit code {code}; see supervisor.log)") from None
    if "error" in answer:
        raise Refused(str(answer["error"]))
    environment: dict[str, str] = answer["environment"]
    return environment


def call(module: str, argument: Path) -> tuple[int, str]:
    """Run `runners.MODULE` in a full Python beside us; its exit code and what it printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        _become(module, argument)
    os.close(writing)
    blocks = []
    while block := os.read(reading, 65536):
        blocks.append(block)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), b"".join(blocks).decode()


def begin(module: str, argument: Path, *words: str) -> None:
    """Run `runners.MODULE` in a full Python beside us and go on; whoever reaps our children reaps it too."""
    if os.fork() == 0:
        _become(module, argument, *words)


def tell(run: RunDirectory, kind: str, text: str) -> None:
    """Have a notice given, by what the user's settings say, if there are settings at all."""
    if (config_dir() / "settings.yaml").is_file():
        try:
            begin("health.announce", run.path, kind, text)
        except OSError:
            pass  # no process to be had: the run matters more


def become_dispatcher(state: Path) -> None:
    """Turn this process, its work done and its locks released, into one pass over the queue."""
    _become("lifecycle.queue", state)


def _become(module: str, argument: Path, *more: str) -> None:
    # -E and -P: nothing of the run's environment or directory decides what is imported.
    words = [sys.executable, "-E", "-P", "-c", _CALL.format(module), str(ROOT), str(argument), *more]
    try:
        os.execv(sys.executable, words)
    finally:
        os._exit(127)
