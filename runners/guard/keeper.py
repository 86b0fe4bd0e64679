"""Starting the guard that is set, when none runs, and its keeper (`standby.py`).

Front ends and runs' supervisors start a guard; a guard starts its keeper, which takes its place
when it dies. Each waits for the other's lock, so that a death wakes the other at once. Where this
user's systemd can be relied on, the keeper is a service of it: then both may be killed at the same
moment.
"""

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from runners.host import helpers
from runners.host.files import append_event, open_private, read_text, replace
from runners.host.keep_alive import KeepAlive
from runners.host.locks import await_release, is_held
from runners.state.decoding import read
from runners.state.layout import StateDirectory, settings_file
from runners.state.leases import live_run_ids

_LOG_LIMIT = 1 << 20
_FIRST_ANEW_S = 2.0
_PREEMPTION_ANEW_S = 20.0
_ANEW_S = 2.0
_LONGEST_S = 16.0
"""Between two starts of keepers that die young, or are not up yet: a busy machine is slow."""
_YOUNG_S = 0.5
_NOT_YET_S = 0.1
_UNUSUAL_S = 1.0


class GuardKeeper(msgspec.Struct, frozen=True):
    """guard/keeper.json: what starts the guard again, its systemd unit, or why it has none."""

    how: Literal["systemd", "pair"] = "pair"
    unit: str = ""
    reason: str = ""

    def describe(self) -> str:
        """What it is, in words."""
        if self.how == "systemd":
            from runners.host.systemd import lingers  # only where it is shown

            return f"systemd ({self.unit}{'' if lingers() else '; both end at your last logout'})"
        from runners.doctor.logout import judge_logout  # as above

        ends = "; both end at your last logout" if judge_logout().outcome == "killed" else ""
        why = f" ({self.reason})" if self.reason else ""
        return (
            f"a second process, which takes its place{why}{ends}; if both are killed at once, a "
            "live run, a panel or the next command does it (cron: `* * * * * fresnel-tui guard`)"
        )


def guard_lock(state: StateDirectory) -> Path:
    """The lock that is held while a guard lives."""
    return state.guard / "guard.lock"


def keeper_lock(state: StateDirectory) -> Path:
    """The lock that is held while a keeper lives."""
    return state.guard / "keeper.lock"


def ensure_guard(state: StateDirectory) -> bool:
    """Start the guard if it is set and does not run; True when one was started. Raises OSError."""
    start = partial(_start_guard, state)
    return is_set(state) and KeepAlive(guard_lock(state), start, _FIRST_ANEW_S).ensure()


def _start_guard(state: StateDirectory) -> None:
    from runners.host.detach import detach  # most looks find a guard, or none that is set

    # The pid in the unit's name: systemd may still know the unit of a guard that has just died.
    unit = f"fresnel-guard-{state.guard.name}-{os.getpid()}"
    with open_private(state.guard / "guard.log") as log:
        argv = helpers.command("guard", state.root)
        environment = helpers.marked(os.environ, "guard")
        detached = detach(unit, argv, environment, [], log, state.host / "scope.json")
    append_event(state.guard / "guard.jsonl", "detached", **detached.fields())


def read_keeper(state: StateDirectory) -> GuardKeeper | None:
    """The keeper that lives now; None where nothing would start the guard again."""
    if not is_held(keeper_lock(state)):
        return None
    return read(state.guard / "keeper.json", GuardKeeper) or GuardKeeper()


def watch_keeper(state: StateDirectory) -> None:
    """Have a thread of this guard start the keeper, now and whenever it dies."""
    from threading import Thread  # every command looks whether a guard lives

    # A daemon thread: it waits in the kernel, and must not keep a lifted guard from ending.
    Thread(target=_keep_keeper, args=(state,), daemon=True).start()


def _keep_keeper(state: StateDirectory) -> None:
    lock, start = keeper_lock(state), partial(start_keeper, state)
    keep_alive = KeepAlive(lock, start, _ANEW_S, _LONGEST_S, _YOUNG_S, partial(is_set, state))
    while is_set(state):
        try:
            await_release(lock)
            keep_alive.poll(time.monotonic())
            time.sleep(_NOT_YET_S)
        except OSError:
            time.sleep(_UNUSUAL_S)  # no lock or file to be had: tried again, as long as it is set


def is_set(state: StateDirectory) -> bool:
    """True while a guard is set."""
    return (state.guard / "guard.json").exists()


def start_keeper(state: StateDirectory) -> None:
    """Start a keeper: as a service of this user's systemd, else as a process. Raises OSError."""
    from runners.host.detach import start_service  # most looks find a keeper

    unit = f"fresnel-keeper-{state.guard.name}-{os.getpid()}"
    environment = helpers.marked(os.environ, "keeper")
    command = helpers.command("keeper", state.root)
    probe = start_service(unit, command, environment, state.host / "scope.json")
    if not probe.works:
        helpers.spawn("keeper", state.root)
    keeper = (
        GuardKeeper("systemd", f"{unit}.service") if probe.works else GuardKeeper(reason=probe.why)
    )
    with suppress(OSError):  # a full disk: it keeps all the same
        replace(state.guard / "keeper.json", msgspec.json.encode(keeper), sync=False)


def enter(state: StateDirectory) -> None:
    """Leave the terminal for the guard's log; exits where others could write what is run here."""
    from runners.host.alone import leave_terminal
    from runners.host.ownership import permission_problem
    from runners.state.trust import state_permission_problem

    reason = state_permission_problem(state) or permission_problem(state.guard)
    if reason:
        sys.exit(f"refused: {reason}")  # who can write there decides what runs as this user
    leave_terminal(state.guard / "guard.log", _LOG_LIMIT)
    os.chdir("/")


def ensure_preemption_watch(state: StateDirectory) -> bool:
    """Start it where it is allowed and has a use, and does not run; True then. Raises OSError."""
    if not state.session.exists() and not live_run_ids(state):
        return False
    if not _may_be_allowed() or is_held(state.preemption_lock):
        return False
    from runners.cost.cloud import allowed_base  # most never get here

    if not allowed_base():
        return False
    start = partial(helpers.spawn, "preemption", state.root)
    return KeepAlive(state.preemption_lock, start, _PREEMPTION_ANEW_S).ensure()


def _may_be_allowed() -> bool:
    """False where nobody has said anything of metadata, without reading YAML: that takes long."""
    return bool(os.environ.get("FRESNEL_METADATA")) or "metadata" in read_text(settings_file())
