"""The supervisor: a small detached process that owns one run, from the queue to its recorded
ending.

Run as `python -I -S supervisor.py RUN_DIRECTORY [SUPERVISOR_LOCK_FD RUN_LOCK_FD]`. With the two
descriptors it launches the run's plan, or waits with it in the queue; without them it adopts a run
whose supervisor died. Standard library only, no import of anything that would make it bigger:
dozens of these live for days.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

# Run by its path, isolated: the folder that holds `runners` is four levels up.
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path.insert(0, _ROOT)

from runners.host import helpers
from runners.host.clock import moment_now
from runners.host.files import append_event, read_json, write_json
from runners.host.identity import boot_id, boot_time, host_name
from runners.host.locks import acquire
from runners.host.newest_file import newest
from runners.host.procfs import environment_of
from runners.lifecycle.supervisor.attempt import Attempt
from runners.lifecycle.supervisor.exit_report import (
    explain_exit,
    failed_rank,
    last_error,
    still_held,
)
from runners.lifecycle.supervisor.ledger_entry import append_run, last_activity
from runners.lifecycle.supervisor.program import become_subreaper
from runners.lifecycle.supervisor.queue_wait import (
    LaunchRefused,
    attempt_report,
    notify,
    replan,
    summarize,
    wait_for_grant,
)
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.model.states import State, is_terminal
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.trust import run_permission_problem

_RETRY_WRITE_S = 2.0
_NO_PLAN: dict[str, Any] = {
    "stop": {"ladder": [], "target": "leader"},
    "argv": [],
    "working_directory": "/",
}


class Supervisor:
    """One run's owner: waits with it, launches or adopts it, starts it again, records how it
    ended.
    """

    def __init__(self, run: RunDirectory, kept: list[int]) -> None:
        self.run = run
        self.state = StateDirectory(run.path.parent.parent)
        self.plan: dict[str, Any] = read_json(run.plan) or _NO_PLAN
        self.kept = kept
        self.wakes = WakeupLoop()
        self.record: dict[str, Any] = read_json(run.state) or {}
        self.environment: dict[str, str] | None = dict(os.environ)
        self.went_on_from: str | None = None
        self.useless: list[str] = []  # checkpoints that an attempt died on before its first step
        self.printed: list[str] = []
        self.unseen = False  # the program ended while nobody watched

    def own(self, adopting: bool) -> None:
        """Bring the run to its recorded ending."""
        attempt = self.find_attempt() if adopting else self.first_attempt()
        while attempt is not None:
            attempt.watch()
            attempt = self.finish(attempt)

    # ── beginning ─────────────────────────────────────────────────────────────────────────────────

    def first_attempt(self) -> Attempt | None:
        """Start the program, after its turn in the queue has come; None when it ended before it
        began.
        """
        # The queue may have granted it before this process began: it still has to be spelled out.
        if self.plan.get("queued") or self.plan.get("granted"):
            self.write(state=State.QUEUED, attempt=1)
            try:
                granted = wait_for_grant(self.run, self.wakes)
                if granted is None:
                    self.end(State.STOPPED, "stopped before it started", None)
                    return None
                self.environment = replan(self.run)
            except LaunchRefused as refusal:
                self.end(State.FAILED, str(refusal), None)
                return None
            self.plan = read_json(self.run.plan) or granted
        return self.start(1, [])

    def start(self, number: int, more: list[str]) -> Attempt | None:
        """Start attempt `number` with `more` arguments; a program that cannot start is a failed
        run.
        """
        if self.environment is None:
            self.end(
                State.FAILED,
                f"{self.record.get('reason', '')}; its environment is gone with its first "
                "supervisor",
                None,
            )
            return None
        self.unseen = False
        self.write(state=State.STARTING, reason="", attempt=number)
        attempt = Attempt(self.run, self.plan, self.wakes, self.write)
        try:
            waiter = attempt.start([*self.plan["argv"], *more], self.environment, self.kept[1:])
        except OSError as error:
            self.end(State.FAILED, f"could not start: {error}", None)
            return None
        started = self.record.get("started") or time.time()
        ticks = attempt.waiter_ticks
        began = self.record.get("began") or (None if self.record.get("started") else moment_now())
        self.write(
            state=State.RUNNING, started=started, began=began, waiter_pid=waiter, waiter_ticks=ticks
        )
        append_event(
            self.run.supervisor_events, "state", state="running", attempt=number, arguments=more
        )
        attempt.limit(started)
        return attempt

    def find_attempt(self) -> Attempt | None:
        """Take over a run whose supervisor died; one that never started or vanished is recorded as
        such.
        """
        recorded = self.record.get("boot_id")
        self.unseen = True
        if recorded and recorded != boot_id():
            rebooted = time.strftime("%Y-%m-%d %H:%M", time.localtime(boot_time()))
            self.end(State.LOST, f"host rebooted {rebooted}", None)
            return None
        attempt = Attempt(self.run, self.plan, self.wakes, self.write)
        if not attempt.find(self.record):
            never = not self.record.get("started")
            reason = (
                "the launch was interrupted before the program started"
                if never
                else "ended, exit code unknown"
            )
            self.end(State.FAILED if never else State.LOST, reason, None)
            return None
        self.unseen = self.run.exit.exists()
        leader = attempt.leader()
        self.environment = environment_of(leader) if leader else None
        started = self.record.get("started") or self.leader_since()
        append_event(self.run.supervisor_events, "adopted", by=os.getpid())
        self.write(
            state=State.STOPPING if self.run.stop.exists() else State.RUNNING, started=started
        )
        attempt.limit(started)
        return attempt

    def leader_since(self) -> float:
        """When the program noted its pid: the supervisor that started it was killed before it
        could write that down.
        """
        try:
            return self.run.leader.stat().st_mtime
        except OSError:
            return time.time()

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    def finish(self, attempt: Attempt) -> Attempt | None:
        """After the program's end: clear up, then record how it ended, or start it again; None at
        the end.
        """
        left = attempt.clear_stragglers()
        attempt.output.settle()
        code = attempt.exit_code()
        intent = attempt.intent or (read_json(self.run.stop) if self.run.stop.exists() else None)
        if intent is not None:
            state, reason = (
                State.STOPPED,
                intent.get("reason") or f"stopped by {intent.get('by', 'unknown')}",
            )
        elif code is None:
            state, reason = State.LOST, "ended, exit code unknown"
        elif code == 0:
            state, reason = State.DONE, ""
        else:
            state, reason = (
                State.FAILED,
                "; ".join(
                    filter(
                        None,
                        (
                            last_error(self.run.output),
                            failed_rank(self.run.output),
                            explain_exit(code),
                        ),
                    )
                ),
            )
        held = [f"pid {pid} is still alive" for pid in left] or still_held(
            self.state, self.run.id, self.plan
        )
        if held:
            attempt.alert(f"not freed: {', '.join(held)}")
            reason = f"{reason}; not freed: {', '.join(held)}".removeprefix("; ")
        number = int(self.record.get("attempt", 1))
        if (
            state is State.FAILED
            and not held
            and number <= int(self.plan.get("restart", {}).get("times", 0))
        ):
            return self.again(number, reason, code)
        self.end(state, reason, code)
        return None

    def again(self, number: int, reason: str, code: int | None) -> Attempt | None:
        """Wait a while and start the next attempt from the newest complete checkpoint; None when a
        stop came.
        """
        rule = self.plan["restart"]
        pause = float(rule["backoff_s"]) * 2 ** (number - 1)
        words = f"{reason}; attempt {number + 1} of {rule['times'] + 1} in {pause:g} s"
        append_event(
            self.run.supervisor_events, "restart", reason=reason, exit_code=code, seconds=pause
        )
        self.write(state=State.STARTING, reason=words, exit_code=code)
        until = time.monotonic() + pause
        while time.monotonic() < until and not self.run.stop.exists():
            self.wakes.sleep(until - time.monotonic())
        if self.run.stop.exists():
            self.end(State.STOPPED, "stopped before it started again", code)
            return None
        told = attempt_report(self.run)
        if self.went_on_from is not None and told.get("stepped") is False:
            self.useless.append(self.went_on_from)
        self.printed += [str(one) for one in told.get("checkpoints") or ()]
        for path in (self.run.exit, self.run.leader):
            path.unlink(missing_ok=True)
        if self.run.output.exists():
            self.run.output.rename(self.run.path / f"output.{number}.log")
        if (
            len(self.kept) < 2
        ):  # adopted: the lock was the first attempt's, and is free since it ended
            lock = acquire(self.run.run_lock)
            self.kept += [] if lock is None else [lock]
        checkpoint = newest(
            [*self.plan.get("checkpoints", ()), *self.printed],
            since=float(self.record.get("started") or 0.0) - 1.0,
            own=str(self.run.path),
            besides=self.useless,
        )
        self.went_on_from = checkpoint.path if checkpoint and rule["arguments"] else None
        more = (
            [word.replace("${checkpoint}", checkpoint.path) for word in rule["arguments"]]
            if checkpoint
            else []
        )
        return self.start(number + 1, more)

    def end(self, state: State, reason: str, code: int | None) -> None:
        """Record the ending, trying until the disk takes it, then take the run off the list of
        live ones.
        """
        append_event(
            self.run.supervisor_events, "state", state=state, reason=reason, exit_code=code
        )
        ending: dict[str, Any] = {"state": state, "reason": reason, "exit_code": code, "stop": None}
        if self.unseen:
            ending["seen"] = last_activity(self.run, self.record)
        while not self.write(**ending, ended=time.time(), finished=moment_now()):
            if not self.run.path.is_dir():
                break  # somebody removed the run: nobody is left to tell
            time.sleep(_RETRY_WRITE_S)
        append_run(self.state, self.run, self.plan, self.record)
        self.state.live_marker(self.run.id).unlink(missing_ok=True)
        notify(self.run, state, f"{state}: {reason}" if reason else str(state))
        if self.record.get("started"):
            summarize(self.run)

    def write(self, **changes: Any) -> bool:
        """Replace state.json with the record so changed; False when the disk refuses (the run goes
        on).
        """
        self.record = {**self.record, **changes}
        self.record.update(host=host_name(), boot_id=boot_id(), supervisor_pid=os.getpid())
        try:
            self.record["leader_pid"] = int(self.run.leader.read_text())
        except (OSError, ValueError):
            self.record["leader_pid"] = None
        try:
            write_json(self.run.state, self.record)
        except OSError:
            return False
        return True


def supervise(directory: str, descriptors: list[int]) -> None:
    """Own the run in `directory` until it has ended; returns at once when another supervisor
    does.
    """
    run = RunDirectory(Path(directory))
    kept = descriptors or [acquire(run.supervisor_lock) or -1]
    if kept[0] < 0:
        return
    for descriptor in kept:
        # Inherited ones stay inheritable: a program holding supervisor.lock would hide our death
        # for ever.
        os.set_inheritable(descriptor, False)
    record = read_json(run.state) or {}
    if record.get("state") and is_terminal(State(record["state"])):
        state = StateDirectory(run.path.parent.parent)
        append_run(state, run, read_json(run.plan) or {}, record)
        state.live_marker(run.id).unlink(missing_ok=True)
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_subreaper()
    Supervisor(run, kept).own(adopting=not descriptors)
    state = StateDirectory(run.path.parent.parent)
    if any(state.live.iterdir()):  # somebody may have waited for what this run held
        helpers.become("dispatch", state.root)


def main() -> None:
    """Detach from whoever started us, then supervise."""
    directory, descriptors = sys.argv[1], [int(word) for word in sys.argv[2:]]
    reason = run_permission_problem(RunDirectory(Path(directory)))
    if reason:
        sys.exit(f"refused: {reason}")
    if os.fork():
        os._exit(0)
    supervise(directory, descriptors)


if __name__ == "__main__":
    main()
