"""The guard's process: looks, decides and acts, also when no panel is open.

There is one per state folder and host. Run as `python -c "… main()" STATE_FOLDER`: it detaches,
takes the guard's lock, and watches until `guard.json` is gone. When it is killed, its keeper, the
next front end or any run's supervisor starts it again, and it continues where it was: what is done
once (a warning, the end command) is claimed by a file that only one process can create.
"""

import os
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.cost.run_costs import warn_of_overrun
from runners.guard.claims import END, WARN, clear_marker, marker_of, read_claim
from runners.guard.keeper import ensure_preemption_watch, enter, guard_lock, watch_keeper
from runners.guard.next_step import Action, next_step
from runners.guard.observe import GuardObserver
from runners.guard.outbox import WebhookOutbox
from runners.guard.reserved import disk_is_full, drop_ballast
from runners.guard.rule import (
    GuardRule,
    GuardState,
    Stage,
    full_disk_text,
    read_guard_state,
    read_rule,
    write_guard_state,
)
from runners.host import helpers
from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import append_event, create_once
from runners.host.identity import boot_id
from runners.host.locks import claim
from runners.host.suspension import SuspensionWatch
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.model.closed import assert_never
from runners.model.endings import Ending, EndingCause
from runners.model.errors import FresnelError
from runners.model.units import duration_text
from runners.notify import notification
from runners.state.layout import StateDirectory

LONGEST_PAUSE_S = 5.0
_SELDOM_S = 30.0
_STUCK_AFTER_S = 120.0


class Guard:
    """One guard, holder of the lock; on a full disk it keeps state in memory, and still acts."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.observer = GuardObserver(state)
        self.children: list[subprocess.Popen[bytes]] = []
        self.trouble: tuple[str, ...] = ()
        self._unwritten: GuardState | None = None
        self._error = ""
        self._announced: set[str] = set()
        self._posts = WebhookOutbox()
        self._seldom = float("-inf")
        self._suspended = SuspensionWatch(state.suspensions)

    def run(self) -> None:
        """Watch until the guard is lifted."""
        pause = LONGEST_PAUSE_S
        while True:
            try:
                rule = read_rule(self.state)
                if rule is None:
                    return
                pause = next_look_s(rule)
                pause = next_look_s(rule, self.step(rule), moment_now())
                self._error = ""
            except Exception as error:  # the boundary: a guard that died of it would guard nothing
                self.notify_error(error)
            time.sleep(pause)

    def step(self, rule: GuardRule) -> GuardState:
        """Look once, decide, write the decision down, carry it out; how far it has gone then."""
        with suppress(OSError):  # a full disk: as if it had been awake
            if lasted := self._suspended.poll():
                self._log("suspended", seconds=f"{lasted:.0f}")
        before, now = self._progress(rule), moment_now()
        sight = self.observer.observe(rule, before, now, (*self.trouble, *self._troubles(rule)))
        if sight.ending.damaged and (before is None or before.stage is not Stage.ENDING):
            # It is known not to have begun: said now, so that it is known later on too.
            with suppress(OSError):
                clear_marker(self._folder(rule) / END)
        after, action = next_step(rule, before, sight)
        # Before acting: a guard killed in between repeats the step, and claims hold it back.
        if after != before or self._unwritten is not None:
            self._write(after)
        if before is None or (before.rule, before.stage, before.note) != (
            after.rule,
            after.stage,
            after.note,
        ):
            self._log(after.stage.value, reason=after.reason, note=after.note, rule=rule.id)
        self.trouble = ()
        self._act(action, rule, after, now)
        self._posts.send_again(self._folder(rule), rule.webhook)
        self._now_and_then()
        return after

    def notify_error(self, error: Exception) -> None:
        """Report what cannot be read, in the log and the progress file; nothing is acted on."""
        expected = isinstance(error, (ValueError, OSError, FresnelError))
        text = str(error) if expected else f"the guard failed to look: {error!r}"
        problem = (text or repr(error)).splitlines()[0]
        if problem != self._error:
            self._error = problem
            with suppress(OSError):  # its log may be on a full disk
                when = time.strftime("%Y-%m-%d %H:%M:%S")
                print(f"{when} {problem}", file=sys.stderr, flush=True)
                if not expected:
                    traceback.print_exception(error)
        if not expected:
            self.observer = GuardObserver(self.state)  # whatever is wrong with what it kept
        with suppress(ValueError, OSError):
            progress = read_guard_state(self.state)
            if progress is not None and progress.problems != (problem,):
                write_guard_state(
                    self.state, msgspec.structs.replace(progress, problems=(problem,))
                )

    def _progress(self, rule: GuardRule) -> GuardState | None:
        """How far it has gone; what could not be written counts too."""
        if self._unwritten is not None and self._unwritten.rule == rule.id:
            return self._unwritten
        return read_guard_state(self.state)

    def _write(self, after: GuardState) -> None:
        try:
            write_guard_state(self.state, after)
            self._unwritten = None
        except OSError:
            self._unwritten = after  # acted on all the same

    def _troubles(self, rule: GuardRule) -> list[str]:
        """Other problems than those observed: full disk, failed warning, refusing webhook."""
        found = []
        if self._has_no_room():
            found.append(full_disk_text(self.state))
        warning = read_claim(marker_of(self.state, rule.id, WARN))
        if warning.exit:
            found.append(f"the warn command failed: exit code {warning.exit}")
        if self._posts.problem:
            found.append(self._posts.problem)
        return found

    def _has_no_room(self) -> bool:
        return self._unwritten is not None or disk_is_full(self.state.guard)

    # ── acting ────────────────────────────────────────────────────────────────────────────────────

    def _act(self, action: Action, rule: GuardRule, progress: GuardState, now: Moment) -> None:
        # First of all: the webhook needs no disk, and may be the only way to say so.
        if self._has_no_room():
            self._announce(rule, progress, "trouble", full_disk_text(self.state))
        if action is Action.WARN:
            self._warn(rule, progress, f"runs stop in {duration_text(rule.countdown_s)}")
        elif action is Action.STOP:
            # A guard that was dead for the whole countdown has not warned: better late than never.
            self._warn(rule, progress, "runs are being stopped")
            self._announce(rule, progress, "stop", f"{progress.reason}: runs are being stopped")
            self._stop(rule, progress, now)
        elif action is Action.END:
            # One that was killed before it warned, and came back when no run was left to stop.
            self._warn(rule, progress, "the end command is started")
            text = f"{progress.reason}: {rule.end_command}"
            self._announce(rule, progress, f"end-{progress.attempt}", text)
            self._run_once(rule, progress, END, progress.attempt, rule.end_command, text)
        elif action is Action.HOLD:
            self._announce(rule, progress, f"hold-{progress.note}", progress.note)
        elif action is Action.FAILED:
            text = f"{progress.reason}: {progress.note}"
            self._announce(rule, progress, f"failed-{progress.attempt}", text)
        elif action is Action.CANCEL or action is Action.FINISH:
            self._announce(rule, progress, action.value, f"{progress.reason}: {progress.note}")
        elif action is not Action.NONE:
            assert_never(action)

    def _warn(self, rule: GuardRule, progress: GuardState, what: str) -> None:
        """Warn of a cycle, once."""
        text = f"{progress.reason}: {what}; `fresnel-tui guard postpone 1h`"
        if self._announce(rule, progress, "warn", text):
            for run in self.observer.live_runs():
                append_event(
                    self.state.run(run.id).supervisor_events, "alert", text=f"guard: {text}"
                )
        if rule.warn_command:
            self._run_once(rule, progress, WARN, progress.cycle, rule.warn_command, text)

    def _stop(self, rule: GuardRule, progress: GuardState, now: Moment) -> None:
        """Ask every live run to stop, each once: a second request would take the next rung."""
        trouble = []
        ending = Ending(cause=EndingCause.GUARD, rule=rule.id, detail=progress.reason)
        waited = 0.0 if progress.since is None else seconds_between(progress.since, now)
        for run in self.observer.live_runs():
            if self.state.run(run.id).stop.exists():
                rungs = run.plan.spec.stop.ladder if run.plan is not None else ()
                if waited > sum(rung.wait_s for rung in rungs) + _STUCK_AFTER_S:
                    trouble.append(f"{run.id} does not end: nothing further is done before it has")
                continue
            if disk_is_full(self.state.guard):
                # A run's ending takes a few small files: the blocks kept for it are given up.
                drop_ballast(self.state.guard / "ballast")
            try:
                request_stop(self.state, run, ending=ending)
            except (FresnelError, OSError) as error:
                trouble.append(f"{run.id} cannot be stopped: {str(error).splitlines()[0]}")
        self.trouble = tuple(trouble)

    def _announce(self, rule: GuardRule, progress: GuardState, what: str, text: str) -> bool:
        """Report a step once, in the guard's events and to the webhook; True the first time."""
        step = what.partition("-")[0]
        name = f"said {what} {progress.cycle}".replace("/", "_")[:200]
        claim = self._folder(rule) / name
        if name in self._announced or os.path.lexists(claim):
            return False
        content = notification(
            "guard", text, "guard", time.time(), step=step, reason=progress.reason
        )
        # Before its claim: a guard killed in between says it twice, rather than never.
        self._log("said", step=step, text=text)
        with suppress(OSError):  # where nothing can be written: once in this process
            create_once(claim, msgspec.json.encode(content))
        self._announced.add(name)
        self._posts.send(claim, rule.webhook, content)
        return True

    def _run_once(
        self,
        rule: GuardRule,
        progress: GuardState,
        name: str,
        attempt: int,
        command: str,
        text: str,
    ) -> None:
        """Start a try of a command, at most once, in a process that outlives this one."""
        marker = marker_of(self.state, rule.id, name)
        begun = read_claim(marker)
        # Cheap, and not the proof: `run_once` asks again under the marker's lock.
        if begun.attempt >= attempt or begun.alive:
            return
        variables = {
            "FRESNEL_STATE_DIR": str(self.state.root),
            "FRESNEL_GUARD_STEP": progress.stage.value,
            "FRESNEL_GUARD_TEXT": text,
        }
        child = subprocess.Popen(  # its output goes where ours goes: into the guard's log
            helpers.command("run-once", marker, str(attempt), command, boot_id()),
            env={**os.environ, **variables},
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.children.append(child)

    def _folder(self, rule: GuardRule) -> Path:
        folder = self.state.guard / rule.id
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _log(self, kind: str, **fields: str) -> None:
        append_event(self.state.guard / "guard.jsonl", kind, **fields)

    def _now_and_then(self) -> None:
        """What any open panel does too: adopt orphans, find runs that cost too much."""
        # Polling reaps the children that ended; otherwise they stay as zombies.
        self.children = [child for child in self.children if child.poll() is None]
        if time.monotonic() - self._seldom < _SELDOM_S:
            return
        self._seldom = time.monotonic()
        adopt_orphans(self.state)
        ensure_preemption_watch(self.state)
        runs = self.observer.live_runs()
        costs = self.observer.costs.read(runs, whole=True)
        for run in runs:
            warn_of_overrun(self.state, run, costs.of(run))


def next_look_s(
    rule: GuardRule, progress: GuardState | None = None, now: Moment | None = None
) -> float:
    """Seconds until the next look: a tenth of the shortest length in the rule, 5 at most.

    A countdown is looked at when it is over, not some seconds later.
    """
    lengths = [rule.countdown_s, rule.max_age_s, rule.no_run_s, rule.idle_s]
    pause = max(0.1, min([LONGEST_PAUSE_S, *(length / 10 for length in lengths if length)]))
    if progress is None or now is None or progress.stage is not Stage.WARNED or not progress.since:
        return pause
    left = rule.countdown_s - seconds_between(progress.since, now)
    return min(pause, left) if left > 0.0 else pause


def watch(state: StateDirectory, lock: int | None = None) -> bool:
    """Be the guard until it is lifted; return False at once when another process is.

    `lock` is the descriptor of the guard's lock where this process has it already.
    """
    lock = claim(guard_lock(state)) if lock is None else lock
    if lock is None:
        return False
    watch_keeper(state)
    Guard(state).run()
    os.close(lock)
    return True


def main() -> None:
    """Detach, then be the guard of the state folder named on the command line."""
    state = StateDirectory(Path(sys.argv[-1]))
    enter(state)
    if os.fork():
        os._exit(0)
    os.setsid()
    watch(state)
