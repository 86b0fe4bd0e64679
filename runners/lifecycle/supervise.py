"""The supervisor: a small detached process that owns one run, from its first byte to its recorded ending.

Run as `python -I -S supervise.py RUN_DIRECTORY [SUPERVISOR_LOCK_FD RUN_LOCK_FD]`. With the two descriptors it
launches the run's plan; without them it adopts a run whose supervisor died. Standard library only, no import
of anything that would make it bigger: dozens of these live for days.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from runners.host.files import append_event, read_json, write_json
from runners.host.identity import boot_id, boot_time, host_name
from runners.host.locks import acquire
from runners.host.marks import is_zombie, marked_processes, start_ticks
from runners.lifecycle.ladder import Ladder
from runners.lifecycle.process import (
    become_subreaper,
    marked_environment,
    open_pidfd,
    send_signal,
    signal_targets,
    start_program,
)
from runners.model.paths import RunDirectory, StateDirectory
from runners.model.states import State, is_terminal

_SAFETY_WAKE_S = 20.0  # a poke can be lost; the durable intent on disk cannot
_CLEANUP_POLL_S = 0.05
_STRAGGLERS_LEAVE_S = 2.0
_STRAGGLERS_TERM_S = 10.0
_RETRY_WRITE_S = 2.0


class Supervisor:
    """One run's owner: launches or adopts it, walks its stop ladder, cleans up, records how it ended."""

    def __init__(self, run: RunDirectory, plan: dict[str, Any], kept: list[int]) -> None:
        self.run = run
        self.plan = plan
        self.kept = kept
        self.record: dict[str, Any] = read_json(run.state) or {}
        self.ladder = Ladder(plan["stop"]["ladder"])
        self.intent: dict[str, Any] | None = None
        self.statuses: dict[int, int] = {}
        self.waiter: int | None = None
        self.woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # ── launching and adopting ────────────────────────────────────────────────────────────────────────────

    def launch(self) -> None:
        """Start the plan's program; a program that cannot start is a failed run."""
        self.write(state=State.STARTING, reason="", attempt=1)
        environment = marked_environment(dict(os.environ), self.run.id, str(self.run.path))
        try:
            self.waiter = start_program(
                list(self.plan["argv"]),
                environment,
                self.plan["working_directory"],
                str(self.run.output),
                str(self.run.exit),
                str(self.run.leader),
                self.kept[1:],
            )
        except OSError as error:
            self.end(State.FAILED, f"could not start: {error}", None)
            return
        self.write(
            state=State.RUNNING,
            started=time.time(),
            waiter_pid=self.waiter,
            waiter_ticks=start_ticks(self.waiter),
        )
        append_event(self.run.supervisor_events, "state", state="running")

    def adopt(self) -> None:
        """Take over a run whose supervisor died; one that never started or vanished is recorded as such."""
        recorded = self.record.get("boot_id")
        if recorded and recorded != boot_id():
            self.end(
                State.LOST,
                f"host rebooted {time.strftime('%Y-%m-%d %H:%M', time.localtime(boot_time()))}",
                None,
            )
            return
        waiter, ticks = self.record.get("waiter_pid"), self.record.get("waiter_ticks")
        if waiter and ticks is not None and start_ticks(waiter) == ticks and not is_zombie(waiter):
            self.waiter = waiter
        elif not self.run.exit.exists() and not marked_processes(self.run.id):
            never = not self.record.get("started")
            reason = "the launch was interrupted before the program started" if never else "ended, exit code unknown"
            self.end(State.FAILED if never else State.LOST, reason, None)
            return
        stop = self.record.get("stop")
        if stop:  # go on where the ladder stood, not from its first rung again
            self.ladder.step = min(int(stop["step"]), len(self.ladder.rungs)) - 1
            self.ladder.until = time.monotonic() + max(0.0, float(stop["until"]) - time.time())
        state = State.STOPPING if self.run.stop.exists() else State.RUNNING
        append_event(self.run.supervisor_events, "adopted", by=os.getpid())
        self.write(state=state, started=self.record.get("started") or time.time())

    # ── watching ──────────────────────────────────────────────────────────────────────────────────────────

    def watch(self) -> None:
        """Wait for the program's end, waking only for it, for a stop, and for the ladder's next rung."""
        poller = select.poll()
        poller.register(self.woken, select.POLLIN)
        watched = open_pidfd(self.waiter) if self.waiter else None
        if watched is not None:
            poller.register(watched, select.POLLIN)
        while not self.program_ended():
            self.climb()
            poller.poll(self.patience(watched is not None) * 1000)
            self.drain()
            if watched is not None and self.waiter is None:
                poller.unregister(watched)
                os.close(watched)
                watched = None

    def program_ended(self) -> bool:
        """True once the waiter is gone and, if it was killed before the program ended, the program is too."""
        self.reap()
        if self.waiter is not None and is_zombie(self.waiter):
            self.waiter = None
        if self.waiter is not None:
            return False
        return self.run.exit.exists() or self.record.get("waiter_pid") in self.statuses_of_exits() or not self.alive()

    def statuses_of_exits(self) -> set[int]:
        """Pids that ended by themselves: a waiter that was killed says nothing about its program."""
        return {pid for pid, status in self.statuses.items() if os.WIFEXITED(status)}

    def alive(self) -> list[int]:
        """The run's processes that are still there."""
        return marked_processes(self.run.id)

    def patience(self, has_pidfd: bool) -> float:
        """Seconds to sleep at most until something must be looked at again."""
        if self.waiter is None or not has_pidfd:
            return 0.5
        if self.intent is not None and not self.ladder.is_last:
            return max(0.0, min(_SAFETY_WAKE_S, self.ladder.until - time.monotonic()))
        return 1.0 if self.intent is not None else _SAFETY_WAKE_S

    def drain(self) -> None:
        """Forget the pokes received so far; what they mean stands on disk."""
        try:
            while os.read(self.woken, 512):
                pass
        except BlockingIOError:
            pass

    def reap(self) -> None:
        """Collect every child that has ended, also orphans that came to us as their subreaper."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.statuses[pid] = status
        except ChildProcessError:
            return

    # ── stopping ──────────────────────────────────────────────────────────────────────────────────────────

    def climb(self) -> None:
        """Act on a stop intent: take every rung that is due, record it, send its signal."""
        if not self.run.stop.exists():
            return
        # A damaged intent is still an intent.
        self.intent = read_json(self.run.stop) or {"by": "unknown", "presses": 1}
        presses, force = int(self.intent.get("presses", 1)), bool(self.intent.get("force"))
        while self.ladder.due(time.monotonic(), presses, force):
            how = self.ladder.advance(time.monotonic(), force)
            until = time.time() + self.ladder.until - time.monotonic()
            reached = self.signal(how)
            append_event(self.run.supervisor_events, "stop", rung=how, until=until, signalled=reached)
            self.write(
                state=State.STOPPING,
                reason=self.intent.get("reason") or f"stop asked by {self.intent.get('by', 'unknown')}",
                stop={
                    "rung": how,
                    "step": self.ladder.step + 1,
                    "steps": len(self.ladder.rungs),
                    "until": until,
                    "asked_by": str(self.intent.get("by", "")),
                    "asked_at": float(self.intent.get("time", 0.0)),
                },
            )

    def signal(self, how: str) -> list[int]:
        """Send the rung's signal to the plan's target, SIGKILL to everything; return the pids reached."""
        if how == "stop-file":
            return []
        number = signal.Signals[how]
        if number == signal.SIGKILL:
            pids = [pid for pid in self.alive() if pid != self.waiter]
        else:
            pids = signal_targets(self.run.id, self.plan["stop"]["target"], self.leader(), self.waiter)
        return [pid for pid in pids if send_signal(pid, number, self.run.id)]

    def leader(self) -> int | None:
        """The pid of the program itself, as it noted it when it started."""
        try:
            return int(self.run.leader.read_text())
        except (OSError, ValueError):
            return None

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        """After the program's end: let its last processes go or make them go, then record how it ended."""
        left = self.clear_stragglers()
        code = self.exit_code()
        if self.intent is not None or self.run.stop.exists():
            intent = self.intent or read_json(self.run.stop) or {}
            state, reason = State.STOPPED, intent.get("reason") or f"stopped by {intent.get('by', 'unknown')}"
        elif code is None:
            state, reason = State.LOST, "ended, exit code unknown"
        elif code == 0:
            state, reason = State.DONE, ""
        else:
            state, reason = State.FAILED, _explain_exit(code)
        if left:
            reason = f"{reason}; still alive: pid {', '.join(map(str, left))}".removeprefix("; ")
        self.end(state, reason, code)

    def clear_stragglers(self) -> list[int]:
        """End what the program left behind: leave, then SIGTERM, then SIGKILL; return what would not go."""
        began = time.monotonic()
        leave = 0.0 if self.intent is not None else _STRAGGLERS_LEAVE_S
        steps = [(leave, signal.SIGTERM), (leave + _STRAGGLERS_TERM_S, signal.SIGKILL)]
        while True:
            self.reap()
            left = self.alive()
            if not left or time.monotonic() - began > leave + 2 * _STRAGGLERS_TERM_S:
                return left
            if steps and time.monotonic() - began >= steps[0][0]:
                number = steps.pop(0)[1]
                append_event(self.run.supervisor_events, "left over", pids=left, signal=number.name)
                for pid in left:
                    send_signal(pid, number, self.run.id)
            time.sleep(_CLEANUP_POLL_S)

    def exit_code(self) -> int | None:
        """The program's exit status: from the waiter's file, else from the kernel where we are its parent."""
        try:
            return int(self.run.exit.read_text())
        except (OSError, ValueError):
            pass
        for pid in (self.record.get("waiter_pid"), self.leader()):
            status = self.statuses.get(pid) if pid else None
            if status is not None and (os.WIFEXITED(status) or pid != self.record.get("waiter_pid")):
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        return None

    def end(self, state: State, reason: str, code: int | None) -> None:
        """Record the ending, trying until the disk takes it, then take the run off the list of live ones."""
        append_event(self.run.supervisor_events, "state", state=state, reason=reason, exit_code=code)
        while not self.write(state=state, reason=reason, exit_code=code, ended=time.time(), stop=None):
            time.sleep(_RETRY_WRITE_S)
        StateDirectory(self.run.path.parent.parent).live_marker(self.run.id).unlink(missing_ok=True)

    def write(self, **changes: Any) -> bool:
        """Replace state.json with the record so changed; False when the disk refuses (the run goes on)."""
        self.record = {**self.record, **changes}
        self.record.update(host=host_name(), boot_id=boot_id(), supervisor_pid=os.getpid())
        self.record["leader_pid"] = self.leader()
        try:
            write_json(self.run.state, self.record)
        except OSError:
            return False
        return True


def _explain_exit(code: int) -> str:
    if code > 128:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            return f"exit code {code}"
        hint = " (out of memory, or killed by somebody)" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"
    hints = {126: " (not executable)", 127: " (command not found)"}
    return f"exit code {code}{hints.get(code, '')}"


def supervise(directory: str, descriptors: list[int]) -> None:
    """Own the run in `directory` until it has ended; returns at once when another supervisor does."""
    run = RunDirectory(Path(directory))
    kept = descriptors or [acquire(run.supervisor_lock) or -1]
    if kept[0] < 0:
        return
    recorded = (read_json(run.state) or {}).get("state")
    if recorded and is_terminal(State(recorded)):
        StateDirectory(run.path.parent.parent).live_marker(run.id).unlink(missing_ok=True)
        return
    plan = read_json(run.plan)
    if plan is None:
        plan = {"stop": {"ladder": [], "target": "leader"}, "argv": [], "working_directory": "/"}
    supervisor = Supervisor(run, plan, kept)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(supervisor._wake, warn_on_full_buffer=False)
    become_subreaper()
    if descriptors:
        supervisor.launch()
    else:
        supervisor.adopt()
    if not is_terminal(State(supervisor.record["state"])):
        supervisor.watch()
        supervisor.finish()


def main() -> None:
    """Detach from whoever started us, then supervise."""
    directory, descriptors = sys.argv[1], [int(word) for word in sys.argv[2:]]
    if os.fork():
        os._exit(0)
    supervise(directory, descriptors)


if __name__ == "__main__":
    main()
