"""Starts waiting launches, each on one machine and once, in the order of the queue.

One process for each state folder, on the machine of whoever launched: it needs neither a panel nor
a terminal. While that machine sleeps nothing starts, and nothing is lost. Several people's queues
meet at the machines: a machine's own lock decides who gets its GPUs, and whoever is refused there
looks for another.

Before a machine is told to start a launch, its name and that of the request are written down. Until
it has said what came of it no other machine is asked: it is told to withdraw the request, which
either has made a run by then or never will.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import msgspec

from runners.cost.all_machines import refuse_over_budget
from runners.host import helpers
from runners.host.alone import run_alone
from runners.host.files import is_gone
from runners.host.identity import UNATTENDED
from runners.host.keep_alive import KeepAlive
from runners.host.locks import is_held
from runners.host.procfs import HELPER_MARK
from runners.model.errors import ExitCode, FresnelError
from runners.model.run_ids import is_run_id
from runners.model.trailing_command import with_flags
from runners.places.fleet.asking import AT_ONCE, PLACEMENT, Fleet
from runners.places.fleet.choosing import MachineChoice, choose, is_hopeless, kept_by
from runners.places.fleet.waiting import (
    WaitingLaunch,
    cancelled_at,
    forget_old,
    open_launches,
    queue_lock,
    save_launch,
)
from runners.places.place import WatchedPlace
from runners.places.ssh.groups import candidates
from runners.places.ssh.protocol import new_request_name
from runners.places.ssh.registry import RemoteRegistry
from runners.places.table import open_kinds
from runners.state.layout import StateDirectory
from runners.state.requests import REQUEST

_LOOKS_EVERY_S = 2.0
_REST_S = 0.2
_CONNECTS_WITHIN_S = 10.0
"""So long machines may take to be reached before a launch goes on without them."""
_ANSWERS_WITHIN_S = 20.0
_ANEW_S = 1.0
"""So long after it has started one, a process starts no other."""
_NOT_ASKED = {"asked": "", "in_doubt": False}
_CANCELLED = "cancelled before it found a machine"

_starts: dict[Path, KeepAlive] = {}


class Dispatcher:
    """The machines of one state folder, and the launches that wait for them."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._news = threading.Event()
        self._kinds = open_kinds(state, self._news.set)
        self._places: dict[str, WatchedPlace] = {}
        self._fleet = Fleet()
        self._patient_until = time.monotonic() + _CONNECTS_WITHIN_S

    def run(self) -> None:
        """Until nothing waits any more."""
        try:
            while not is_gone(self._state.root) and (launches := open_launches(self._state)):
                self._refresh()
                self._pass(launches)
                # What every second brings is looked at a few times in it, not at each word.
                time.sleep(_REST_S)
                self._news.wait(_LOOKS_EVERY_S)
                self._news.clear()
        finally:
            for kind in self._kinds:
                kind.stop()

    def _refresh(self) -> None:
        for kind in self._kinds:
            kind.refresh()
        self._places = {name: place for kind in self._kinds for name, place in kind.places.items()}

    def _pass(self, launches: Sequence[WaitingLaunch]) -> None:
        """Look once at every launch, the first of the queue first."""
        taken: set[str] = set()
        for launch in launches:
            if launch.asked:
                launch = self._settle(launch)
            if launch.ended:
                continue
            if launch.asked:
                taken.add(launch.asked)
            elif cancelled_at(self._state, launch):
                self._end(launch, problem=_CANCELLED, exit_code=ExitCode.DENIED)
            else:
                taken |= self._consider(launch, taken)

    def _consider(self, launch: WaitingLaunch, taken: set[str]) -> set[str]:
        """Start a launch if a machine is free for it; the machines that it goes on waiting for."""
        try:
            names = candidates(RemoteRegistry(self._state), launch.where)
        except FresnelError as error:
            self._end(launch, problem=error.message, exit_code=error.exit_code)
            return set()
        places = [self._places[name] for name in names if name in self._places]
        if self._is_early(places):
            return set(names)
        offers = self._fleet.offers(launch, places, taken)
        choice = choose(offers)
        if choice.machine is not None:
            # A launch waits for a new budget as it does for a machine.
            spent = self._over_budget()
            launch = self._note(launch, spent) if spent else self._start(launch, choice)
        elif is_hopeless(offers):
            self._end(launch, problem=choice.reason, exit_code=ExitCode.DENIED)
            return set()
        else:
            self._note(launch, choice.reason)
        return set() if launch.ended else kept_by(offers)

    def _over_budget(self) -> str:
        """That the budget over all machines is spent; empty while it is not."""
        try:
            refuse_over_budget(self._state, RemoteRegistry(self._state).names())
        except FresnelError as error:
            return error.message
        return ""

    def _is_early(self, places: Sequence[WatchedPlace]) -> bool:
        """Whether machines may yet be reached that were not tried to the end."""
        unknown = any(
            not place.is_down and (place.snapshot is None or not place.is_reached)
            for place in places
        )
        return unknown and time.monotonic() < self._patient_until

    # ---- starting one

    def _start(self, launch: WaitingLaunch, choice: MachineChoice) -> WaitingLaunch:
        assert choice.machine is not None
        launch = self._save(
            launch, asked=choice.machine, request=new_request_name(), choice=choice.reason
        )
        try:
            done = subprocess.run(
                helpers.this_program(*launch_command(launch, choice.waits)),
                cwd=launch.folder,
                env=_environment(launch),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            return self._end(launch, problem=f"{launch.folder}: {error.strerror}")
        runs = tuple(done.stdout.split())
        if done.returncode == ExitCode.DONE and runs and all(map(is_run_id, runs)):
            return self._end(launch, machine=launch.asked, runs=runs)
        return self._settle(launch, done.returncode, done.stderr.strip())

    def _settle(
        self, launch: WaitingLaunch, exit_code: int = ExitCode.DENIED, why: str = ""
    ) -> WaitingLaunch:
        """Find out from the machine that was asked what came of it; it starts it no more."""
        machine, place = launch.asked, self._places.get(launch.asked)
        if place is None:
            problem = f"{machine} was removed while it was asked: it may have started there"
            return self._end(launch, problem=problem)
        if self._is_early([place]):
            return launch
        made, problem = self._withdraw(place, launch.request)
        if made is None:
            reason = f"{machine}: {problem}; whether it began there is not known"
            is_known = launch.in_doubt and launch.reason == reason
            if is_known and cancelled_at(self._state, launch) < launch.looked:
                return launch
            return self._save(launch, reason=reason, in_doubt=True, looked=time.time())
        if made:
            return self._end(launch, machine=machine, runs=tuple(made))
        if exit_code != ExitCode.DENIED:
            return self._end(launch, problem=f"{machine}: {why}", exit_code=exit_code)
        reason = why.partition("\n")[0].removeprefix("fresnel-tui: ") or "refused"
        self._fleet.refused(launch, machine, reason)
        freed = {**_NOT_ASKED, "request": "", "choice": "", "looked": 0.0}
        return self._save(launch, **freed, reason=f"{machine}: {reason}")

    def _withdraw(self, place: WatchedPlace, request: str) -> tuple[list[str] | None, str]:
        """The runs that a request made, none after this; None and a problem while not known."""
        if place.place.obstacle:
            return None, "not reached"
        answers: Queue[tuple[object, str]] = Queue()
        place.place.ask("withdraw", [request], lambda *answer: answers.put(answer))
        try:
            found, problem = answers.get(timeout=_ANSWERS_WITHIN_S)
        except Empty:
            return None, "no answer"
        runs = found.get("runs") if isinstance(found, dict) else None
        # They become words of commands: what is no run is none of them.
        if problem or not isinstance(runs, list) or not all(map(is_run_id, map(str, runs))):
            return None, problem or "an answer that cannot be understood"
        return [str(run) for run in runs], ""

    # ---- writing down

    def _note(self, launch: WaitingLaunch, reason: str) -> WaitingLaunch:
        if launch.looked and reason == launch.reason:
            return launch
        return self._save(launch, reason=reason, looked=time.time())

    def _end(self, launch: WaitingLaunch, **changes: Any) -> WaitingLaunch:
        if changes.get("problem"):
            changes = {"exit_code": ExitCode.RUN_FAILED, "choice": "", **changes}
        return self._save(
            launch, **changes, asked="", in_doubt=False, environment={}, ended=time.time()
        )

    def _save(self, launch: WaitingLaunch, **changes: Any) -> WaitingLaunch:
        launch = msgspec.structs.replace(launch, **changes)
        save_launch(self._state, launch)
        return launch


def launch_command(launch: WaitingLaunch, waits: bool) -> list[str]:
    """The command that starts a launch on the machine that is asked; some of its runs may wait."""
    flags = (f"{PLACEMENT}={launch.choice}", "--host", launch.asked)
    return with_flags(launch.command, *(() if waits else (AT_ONCE,)), *flags)


def _environment(launch: WaitingLaunch) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if name != HELPER_MARK}
    return {
        **mine,
        **launch.environment,
        REQUEST: launch.request,
        UNATTENDED: "0" if launch.attended else "1",
    }


def start_dispatcher(state: StateDirectory) -> None:
    """Have a process start what waits, where something does and none lives.

    One that was started a moment ago may not have come to hold its lock yet.
    """
    starts = _starts.get(state.root)
    if starts is None:
        start = partial(helpers.spawn, "fleet-queue", state.root)
        starts = _starts[state.root] = KeepAlive(queue_lock(state), start, _ANEW_S)
    now = time.monotonic()
    if starts.pause_over(now) and not is_held(queue_lock(state)) and open_launches(state):
        starts.start(now)


def main() -> None:
    """Detach, then start what waits in the state folder `argv[1]`, if nobody does."""
    state = StateDirectory(Path(sys.argv[1]))

    def work() -> None:
        forget_old(state)
        Dispatcher(state).run()

    run_alone(queue_lock(state), work)
