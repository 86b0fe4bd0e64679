"""Waiting in the queue: asleep until poked, first in line looking around for itself, then spelled
out and started.

Standard library only: the supervisor imports it. What needs more (choosing GPUs, spelling out a
plan) is done by short-lived processes.
"""

import json
from typing import Any

from runners.host import helpers
from runners.host.files import read_json
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.state.layout import RunDirectory, config_dir

_FIRST_LOOKS_EVERY_S = 5.0
_OTHERS_LOOK_EVERY_S = 60.0


class LaunchRefused(Exception):
    """The run can never start; the message says why."""


def wait_for_grant(run: RunDirectory, wakes: WakeupLoop) -> dict[str, Any] | None:
    """Sleep until the queue grants the run its GPUs; its granted plan, or None when a stop came
    first.
    """
    while not run.stop.exists():
        plan = read_json(run.plan)
        if plan is not None and not plan.get("queued"):
            return plan
        waits = read_json(run.waits) or {}
        if waits.get("never"):
            raise LaunchRefused(str(waits.get("reason", "it can never start")))
        # The first in line looks for what nobody pokes for: a stranger leaving a GPU, a supervisor
        # killed.
        wakes.sleep(_FIRST_LOOKS_EVERY_S if waits.get("place", 1) == 1 else _OTHERS_LOOK_EVERY_S)
        if not run.stop.exists() and (read_json(run.plan) or {}).get("queued"):
            helpers.run("dispatch", run.path.parent.parent)
    return None


def replan(run: RunDirectory) -> dict[str, str]:
    """Rewrite the plan for the granted GPUs; the program's environment. Refused says what no
    longer exists.
    """
    code, output = helpers.run("replan", run.path)
    try:
        answer = json.loads(output)
    except ValueError:
        raise LaunchRefused(
            f"could not be prepared (exit code {code}; see supervisor.log)"
        ) from None
    if "error" in answer:
        raise LaunchRefused(str(answer["error"]))
    environment: dict[str, str] = answer["environment"]
    return environment


def notify(run: RunDirectory, kind: str, text: str) -> None:
    """Have a notice given, by what the user's settings say, if there are settings at all."""
    if (config_dir() / "settings.yaml").is_file():
        try:
            helpers.spawn("notify", run.path, kind, text)
        except OSError:
            pass  # no process to be had: the run matters more


def summarize(run: RunDirectory) -> None:
    """Have the run's final and best values read from all that it printed, and kept."""
    try:
        helpers.spawn("summarize", run.path)
    except OSError:
        pass  # no process to be had: the first who asks reads them


def attempt_report(run: RunDirectory) -> dict[str, Any]:
    """What the attempt that just failed came to; empty when it cannot be found out."""
    try:
        _, output = helpers.run("attempt-report", run.path)
        answer = json.loads(output)
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}
