"""One attempt of a run: its program started or found again, watched, stopped by the ladder,
cleaned up after.

Standard library only: the supervisor imports it.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from runners.host.files import append_event, read_json, write_json
from runners.host.procfs import (
    ignores,
    is_zombie,
    marked_processes,
    parent_of,
    start_ticks,
)
from runners.lifecycle.supervisor.guard_keepalive import GuardWatch
from runners.lifecycle.supervisor.output_limit import OutputLimit
from runners.lifecycle.supervisor.program import (
    marked_environment,
    open_pidfd,
    run_processes,
    send_signal,
    signal_targets,
    start_program,
)
from runners.lifecycle.supervisor.queue_wait import notify
from runners.lifecycle.supervisor.sampler_keepalive import Sampling
from runners.lifecycle.supervisor.stop_ladder import Ladder
from runners.lifecycle.supervisor.wakeup import Children, WakeupLoop
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory

_SAFETY_WAKE_S = 20.0  # a poke can be lost; the durable intent on disk cannot
_WITHOUT_WAITER_S = 0.5
_CLEANUP_POLL_S = 0.05
_STRAGGLERS_LEAVE_S = 2.0
_STRAGGLERS_TERM_S = 10.0


class Attempt:
    """The program of a run from its start to its last process; `write` records changes of the
    run's state.
    """

    def __init__(
        self, run: RunDirectory, plan: dict[str, Any], wakes: WakeupLoop, write: Callable[..., bool]
    ) -> None:
        self.run = run
        self.plan = plan
        self.wakes = wakes
        self.write = write
        self.children = Children()
        self.ladder = Ladder(plan["stop"]["ladder"])
        self.intent: dict[str, Any] | None = None
        self.overrun_told = run.overrun.exists()
        self.told: set[int] | None = set()
        self.waiter: int | None = None
        self.waiter_was: int | None = None
        self.waiter_ticks: int | None = None
        self.ends_at: float | None = None
        self.output = OutputLimit(run.output, plan.get("output_limit"), self.alert)
        self.guard = GuardWatch(StateDirectory(run.path.parent.parent))
        self.sampling = Sampling(StateDirectory(run.path.parent.parent), bool(plan.get("gpus")))

    # ── beginning ─────────────────────────────────────────────────────────────────────────────────

    def start(self, argv: list[str], environment: dict[str, str], kept: list[int]) -> int:
        """Start the program with `kept` descriptors inherited; the waiter's pid. OSError when it
        cannot start.
        """
        self.waiter = self.waiter_was = start_program(
            argv,
            marked_environment(environment, self.run.id, str(self.run.path)),
            self.plan["working_directory"],
            str(self.run.output),
            str(self.run.exit),
            str(self.run.leader),
            kept,
        )
        self.waiter_ticks = start_ticks(self.waiter)
        return self.waiter

    def find(self, record: dict[str, Any]) -> bool:
        """Take over the attempt that another supervisor recorded; False when nothing of it is
        left.
        """
        waiter, ticks = record.get("waiter_pid"), record.get("waiter_ticks")
        self.waiter_was = waiter
        if waiter and ticks is not None and start_ticks(waiter) == ticks and not is_zombie(waiter):
            self.waiter = waiter
        elif not self.run.exit.exists() and not marked_processes(self.run.id):
            return False
        stop = record.get("stop")
        if stop:  # go on where the ladder stood, not from its first rung again
            self.told = None
            self.ladder.step = min(int(stop["step"]), len(self.ladder.rungs)) - 1
            self.ladder.until = time.monotonic() + max(0.0, float(stop["until"]) - time.time())
        return True

    def limit(self, started: float) -> None:
        """End by the ladder when the plan's limit, counted from `started` (unix seconds), is
        reached.
        """
        seconds = self.plan.get("limit_s")
        if seconds is not None:
            self.ends_at = time.monotonic() + float(seconds) - (time.time() - started)

    # ── watching ──────────────────────────────────────────────────────────────────────────────────

    def watch(self) -> None:
        """Wait for the program's end, waking only for it, for a stop, a limit, and the ladder's
        next rung.
        """
        pidfd = open_pidfd(self.waiter) if self.waiter else None
        while not self.ended():
            self.mind_limit()
            self.mind_overrun()
            self.climb()
            self.output.mind()
            self.sampling.mind()
            self.guard.mind()
            self.wakes.sleep(self.patience(pidfd), pidfd if self.waiter is not None else None)
        if pidfd is not None:
            os.close(pidfd)

    def ended(self) -> bool:
        """True once the waiter is gone and, if it was killed before the program ended, the program
        is too.
        """
        self.children.reap()
        if self.waiter is not None and is_zombie(self.waiter):
            self.waiter = None
        if self.waiter is not None:
            return False
        if self.run.exit.exists() or self.children.exited_by_itself(self.waiter_was):
            return True
        leader = self.leader()
        if (
            leader is not None
            and leader not in self.children.statuses
            and parent_of(leader) == os.getpid()
        ):
            # our own child, not reaped yet: its environment is gone before its status is there
            return False
        return not marked_processes(self.run.id)

    def patience(self, pidfd: int | None) -> float:
        """Seconds to sleep at most until something must be looked at again."""
        if self.waiter is None or pidfd is None:
            return _WITHOUT_WAITER_S
        moments = [_SAFETY_WAKE_S, self.output.patience_s]
        if self.intent is not None:
            moments.append(1.0 if self.ladder.is_last else self.ladder.until - time.monotonic())
        elif self.ends_at is not None:
            moments.append(self.ends_at - time.monotonic())
        return min(moments)

    def mind_limit(self) -> None:
        """Ask for a stop once the limit is reached, as anybody would: by the durable intent."""
        if (
            self.ends_at is not None
            and time.monotonic() >= self.ends_at
            and not self.run.stop.exists()
        ):
            reason = self.plan.get("limit_reason") or "limit reached"
            intent = {
                "time": time.time(),
                "by": "its limit",
                "presses": 1,
                "force": False,
                "reason": reason,
            }
            self.alert(reason)
            try:
                write_json(self.run.stop, intent)
            except OSError:
                self.intent = intent  # a full disk does not lift the limit

    def mind_overrun(self) -> None:
        """Tell, once, of an overrun that a panel or a guard has found: their alert reaches only
        who looks.
        """
        if not self.overrun_told and self.run.overrun.exists():
            self.overrun_told = True
            found = read_json(self.run.overrun) or {}
            notify(self.run, "alert", str(found.get("text", "will cost more than estimated")))

    def alert(self, text: str) -> None:
        """Tell whoever looks at the run."""
        append_event(self.run.supervisor_events, "alert", text=text)
        notify(self.run, "alert", text)

    # ── stopping ──────────────────────────────────────────────────────────────────────────────────

    def climb(self) -> None:
        """Act on a stop intent: take every rung that is due, record it, send its signal."""
        if self.run.stop.exists():
            # A damaged intent is still an intent.
            self.intent = read_json(self.run.stop) or {"by": "unknown", "presses": 1}
        if self.intent is None:
            return
        presses, force = int(self.intent.get("presses", 1)), bool(self.intent.get("force"))
        while self.ladder.due(time.monotonic(), presses, force):
            how = self.ladder.advance(time.monotonic(), force)
            until = time.time() + self.ladder.until - time.monotonic()
            reached = self.signal(how)
            append_event(
                self.run.supervisor_events, "stop", rung=how, until=until, signalled=reached
            )
            self.write(
                state=State.STOPPING,
                reason=self.intent.get("reason")
                or f"stop asked by {self.intent.get('by', 'unknown')}",
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
        """Send the rung's signal to the plan's target, SIGKILL to everything; return the pids
        reached.
        """
        if how == "stop-file":
            return []
        number = signal.Signals[how]
        if number == signal.SIGKILL:
            pids = run_processes(self.run.id, self.waiter)
        else:
            pids = signal_targets(
                self.run.id, self.plan["stop"]["target"], self.leader(), self.waiter
            )
        reached = [pid for pid in pids if send_signal(pid, number, self.run.id, self.waiter)]
        if self.told is not None:
            self.told.update(pid for pid in reached if not ignores(pid, number))
        return reached

    def leader(self) -> int | None:
        """The pid of the program itself, as it noted it when it started."""
        try:
            return int(self.run.leader.read_text())
        except (OSError, ValueError):
            return None

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    def let_finish(self) -> None:
        """Give those who heard a stop's rung the time of that rung, though the leader has gone.

        A wrapper often leaves at the signal at once, while the trainer below it saves a checkpoint.
        """
        while self.intent is not None and not (
            self.ladder.is_last and time.monotonic() >= self.ladder.until
        ):
            self.children.reap()
            left = marked_processes(self.run.id)
            if not left or (self.told is not None and self.told.isdisjoint(left)):
                return
            self.climb()
            self.wakes.sleep(
                min(_WITHOUT_WAITER_S, max(_CLEANUP_POLL_S, self.ladder.until - time.monotonic()))
            )

    def clear_stragglers(self) -> list[int]:
        """End what the program left behind: leave, then SIGTERM, then SIGKILL; return what would
        not go.
        """
        self.let_finish()
        began = time.monotonic()
        leave = 0.0 if self.intent is not None else _STRAGGLERS_LEAVE_S
        steps = [(leave, signal.SIGTERM), (leave + _STRAGGLERS_TERM_S, signal.SIGKILL)]
        while True:
            self.children.reap()
            left = marked_processes(self.run.id)
            if not left or time.monotonic() - began > leave + 2 * _STRAGGLERS_TERM_S:
                return left
            if steps and time.monotonic() - began >= steps[0][0]:
                number = steps.pop(0)[1]
                append_event(self.run.supervisor_events, "left over", pids=left, signal=number.name)
                for pid in left:
                    send_signal(pid, number, self.run.id)
            time.sleep(_CLEANUP_POLL_S)

    def exit_code(self) -> int | None:
        """The program's exit status: from the waiter's file, else from the kernel where we are its
        parent.
        """
        try:
            return int(self.run.exit.read_text())
        except (OSError, ValueError):
            pass
        if self.waiter_was is not None and self.children.exited_by_itself(self.waiter_was):
            return self.children.code(self.waiter_was)
        leader = self.leader()
        return None if leader is None else self.children.code(leader)
