"""Waiting in the queue: asleep until poked, then planned in full and started.

The first in line also looks for itself. What
needs more (choosing GPUs, making a plan) is done by short-lived processes.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runners.host import helpers
from runners.host.files import is_gone, names_in, read_json, write_json
from runners.host.identity import boot_id
from runners.host.locks import is_held
from runners.host.replaced_code import leave_when_removed
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.state.layout import RunDirectory, settings_file
from runners.state.records import QUEUED, PlanFields, phase_of, plan_fields

_FIRST_POLLS_EVERY_S = 5.0
_OTHER_POLLS_EVERY_S = 60.0
_DISPATCHED_WITHIN_S = 60.0
"""Whoever holds the lock that it waits for may be suspended: a stop must be heard all the same."""
_AGAIN_AFTER_S = (1.0, 5.0, 15.0, 60.0)
"""Pauses before a helper that died is asked again, the last one for as long as it takes."""


class LaunchRefused(Exception):
    """The run can never start; the message says why."""


def wait_for_grant(run: RunDirectory, wakeups: WakeupLoop) -> bool:
    """Sleep until the queue grants the run its GPUs; False when a stop came first.

    Raises LaunchRefused when the run can never start, OSError when no process can be started.
    """
    looked = time.monotonic()
    while not is_unwanted(run, wakeups):
        if not _is_queued(run):
            return True
        waits = read_json(run.waits) or {}
        if waits.get("never"):
            raise LaunchRefused(str(waits.get("reason", "it can never start")))
        # The first in line looks for what nobody pokes about: another user leaving a
        # GPU, a supervisor that was killed.
        every = _FIRST_POLLS_EVERY_S if waits.get("place", 1) == 1 else _OTHER_POLLS_EVERY_S
        # By the clock, not by what ended the sleep: the end of the last look does that too.
        left = looked + every - time.monotonic()
        if left > 0:
            wakeups.sleep(left)
            continue
        helpers.run("dispatch", run.home.root, within_s=_DISPATCHED_WITHIN_S)
        leave_when_removed()
        looked = time.monotonic()
    return False


def is_unwanted(run: RunDirectory, wakeups: WakeupLoop) -> bool:
    """True when somebody wants the run stopped, by the disk or by a signal, or has removed it."""
    return run.stop.exists() or wakeups.is_requested or is_gone(run.path)


def _is_queued(run: RunDirectory) -> bool:
    plan = read_json(run.plan)
    return plan is None or phase_of(plan) == QUEUED


def requeue(run: RunDirectory, **where: str) -> PlanFields:
    """Make the plan wait for GPUs again, in this boot: its former ones may be in use by others now.

    `where` are parts of its origin. Raises OSError when the plan is gone or cannot be written.
    """
    changed = queued_again(run, **where)
    write_json(run.plan, changed)
    # Its place among those that waited then would have it look for GPUs a minute from now.
    run.waits.unlink(missing_ok=True)
    return plan_fields(changed)


def queued_again(run: RunDirectory, **where: str) -> dict[str, Any]:
    """The plan as one that waits for GPUs in this boot, and `where`: parts of its origin.

    Raises OSError when it is gone.
    """
    plan = read_json(run.plan)
    if plan is None:
        raise OSError(f"{run.plan} is missing or damaged")
    origin = plan.get("origin")
    origin = {**(origin if isinstance(origin, dict) else {}), "boot_id": boot_id(), **where}
    return {**plan, "phase": QUEUED, "gpus": [], "origin": origin}


def replan(
    run: RunDirectory,
    environment: dict[str, str],
    wakeups: WakeupLoop,
    notify: Callable[[str], object],
) -> dict[str, str] | None:
    """Rewrite the plan for the granted GPUs; return the program's environment, from `environment`.

    A helper that dies before it answers is asked again, after pauses, and `notify` is given the
    reason; None when a stop came meanwhile. Raises LaunchRefused, which says what no longer exists.
    """
    tries = 0
    while not is_unwanted(run, wakeups):
        # The environment comes back by the pipe, never by the disk: it contains secrets.
        problem, answer = _ask_for_plan(run, environment)
        if "error" in answer:
            raise LaunchRefused(str(answer["error"]))
        made = answer.get("environment")
        if isinstance(made, dict):
            return made
        leave_when_removed()
        pause = _AGAIN_AFTER_S[min(tries, len(_AGAIN_AFTER_S) - 1)]
        tries += 1
        notify(f"could not be prepared ({problem}, try {tries}): tried again in {pause:g} s")
        until = time.monotonic() + pause
        while time.monotonic() < until and not is_unwanted(run, wakeups):
            wakeups.sleep(until - time.monotonic())
    return None


def _ask_for_plan(run: RunDirectory, environment: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Why the helper gave no answer, and the answer that it gave; one of them is empty."""
    try:
        code, output = helpers.run("replan", run.home.root, run.id, environment=environment)
        answer = json.loads(output)
    except OSError as error:
        return f"no process can be started: {error.strerror}", {}
    except ValueError:
        return f"exit code {code}; see supervisor.log", {}
    return "", answer if isinstance(answer, dict) else {}


def notify(run: RunDirectory, kind: str, text: str) -> None:
    """Send a notification as the user's settings say, if there are settings at all."""
    if settings_file().is_file():
        from runners.model.masking import mask_text  # most supervisors never tell anybody

        with suppress(OSError):  # no process can be started: the run matters more
            # Everybody on the machine can read a command line.
            helpers.spawn("notify", run.home.root, run.id, kind, mask_text(text))


def summarize(run: RunDirectory) -> None:
    """Start the process that keeps the final and best values of the run's output."""
    with suppress(OSError):  # no process can be started: whoever asks first reads them
        helpers.spawn("summarize", run.path)


def has_stepped(run: RunDirectory) -> bool | None:
    """Whether the attempt that just failed finished a step; None when that is not known."""
    try:
        _, output = helpers.run("attempt-report", run.path)
        return bool(json.loads(output)["stepped"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_awaited(run: RunDirectory) -> bool:
    """Whether a pass over the queue has something to do once the run has ended.

    Somebody waits for what it held or for how it came out, or a run has no supervisor.
    """
    home, group = run.home, plan_fields(read_json(run.plan))["group"]
    if group and (home.sweeps / group / "trials.json").exists():
        return True
    # Launches first: what is noted there is marked live before its note goes.
    if names_in(home.launching):
        return True
    live = names_in(home.live)
    # Of jobs, only Slurm knows which are over.
    if live and home.slurm.is_dir():
        return True
    others = (home.run(name) for name in live)
    return any(not is_held(other.supervisor_lock) or _is_queued(other) for other in others)
