"""One attempt of a run: its program is started or found again, watched to its end, cleaned up."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runners.host import helpers
from runners.host.clock import Moment
from runners.host.exit_status import read_exit_status
from runners.host.files import append_event, is_gone, modified_at, size_of
from runners.host.keep_alive import KeepAlive
from runners.host.memory_group import group_kills
from runners.host.procfs import command_of, is_zombie, parent_of, read_processes, start_ticks
from runners.host.signals import open_pidfd, signal_process
from runners.host.slurm_job import SlurmJob, slurm_job
from runners.host.subreaper import become_subreaper
from runners.lifecycle.supervisor.output_limit import OutputLimit
from runners.lifecycle.supervisor.pollers import (
    LatePoller,
    OverrunNotice,
    Poller,
    ShutdownNotice,
    SuspensionAlert,
    TimeLimit,
    UnmarkedProcesses,
)
from runners.lifecycle.supervisor.processes import Found, RunProcesses
from runners.lifecycle.supervisor.program_start import (
    Program,
    draft_of,
    marked_environment,
    name_exit_status,
    start_program,
)
from runners.lifecycle.supervisor.queue_wait import notify
from runners.lifecycle.supervisor.stop_escalation import StopEscalation
from runners.lifecycle.supervisor.wakeup import Children, WakeupLoop
from runners.model.endings import ending_text
from runners.state.layout import RunDirectory, output_set_aside
from runners.state.records import IntentFields, PlanFields, RecordFields

SAFETY_WAKE_S = 20.0
"""A poke can be lost; the durable intent on disk cannot."""
_WITHOUT_WAITER_S = 0.5
_CLEANUP_POLL_S = 0.05
_BEGINS_WITHIN_S = 5.0
"""Later only where the waiter itself was suspended."""
_STRAGGLERS_LEAVE_S = 2.0
_STRAGGLERS_TERM_S = 10.0
_LONGEST_COMMAND = 200
_SIGNALLED_WITHIN_S, _SAVED_WITHIN_S = 1.0, 0.3
"""Slurm signals all processes of a job: so much later than the program, its supervisor."""
_BY_SIGTERM = (128 + signal.SIGTERM, -signal.SIGTERM)
_SAMPLER_ANEW_S = 20.0
_GUARD_ANEW_S = 2.0
_WATCHER_ANEW_S = 20.0
_KEPT_AFTER_S = 60.0
_WATCHED_AFTER_S = 20.0
"""What ends before is over before anything could be said of it."""


class Attempt:
    """The program of a run from its start to its last process.

    `write` records changes of the run's state.
    """

    def __init__(
        self,
        run: RunDirectory,
        plan: PlanFields,
        wakeups: WakeupLoop,
        write: Callable[[RecordFields], bool],
        record: RecordFields,
    ) -> None:
        self.run = run
        self.plan = plan
        self.wakeups = wakeups
        self.write = write
        self.children = Children()
        self.processes = RunProcesses(run, record.get("followed", []), record.get("cgroup", ""))
        self.stop = StopEscalation(run, plan, self.processes, write)
        self.job_watch: Poller | None = None
        self.shutdown: ShutdownNotice | None = None
        self.check: Callable[[], None] | None = None
        """Raises once the run is another's."""
        self.output = OutputLimit(run.output, plan["output_limit"], self.alert)
        self.waiter: int | None = None
        self.waiter_was: int | None = None
        self.left_running: list[str] = []
        """The commands of what did not end with the program, and was ended."""
        self.kills_before = group_kills()
        """For want of memory, in our control group."""
        self._is_first = not record.get("waiter_pid")

    def start(
        self,
        argv: list[str],
        environment: dict[str, str],
        kept: list[int],
        before: Callable[[int], object],
    ) -> None:
        """Start the program, which inherits `kept`. Raises OSError.

        `before` is called with the waiter's pid before there is a program.
        """
        # Before the program exists: orphans that go to init would be out of reach.
        become_subreaper()
        if self._is_first:
            self.processes.since = start_ticks(os.getpid()) or 0
        program = Program(
            argv,
            marked_environment(environment, self.run.id, str(self.run.path)),
            self.plan["working_directory"],
            str(self.run.output),
            str(self.run.exit),
            str(self.run.leader),
        )

        def record(pid: int) -> None:
            before(pid)
            # Who is ended before has started nothing, and it is started again.
            self._heed_shutdown()

        waiter = start_program(program, kept, record)
        self.waiter = self.waiter_was = self.processes.waiter = waiter

    def find(self, record: RecordFields) -> bool:
        """Take over the attempt that another supervisor recorded; False if nothing is left."""
        waiter, ticks = record.get("waiter_pid"), record.get("waiter_ticks")
        self.waiter_was = waiter
        if waiter is not None and ticks is not None and self._has_begun(waiter, ticks):
            self.waiter = self.processes.waiter = waiter
            is_left = True
        else:
            name_exit_status(self.run.exit)
            # With an exit file, the program ended unobserved: its code is recorded.
            is_left = self.run.exit.exists() or bool(self.processes.find(thorough=True))
        if not is_left:
            return False
        self._heed_shutdown()
        stop = record.get("stop")
        if stop:
            self.stop.continue_from(stop)
        become_subreaper()
        return True

    def _has_begun(self, waiter: int, ticks: int) -> bool:
        """True while the recorded waiter has its program.

        One that had not been told to start it when its supervisor was killed ends at once.
        """
        until = time.monotonic() + _BEGINS_WITHIN_S
        # Pid and start time together prove that this is the waiter: a pid may be used again.
        while start_ticks(waiter) == ticks and not is_zombie(waiter):
            below = any(process.parent == waiter for process in read_processes().values())
            if below or self.run.exit.exists() or time.monotonic() > until:
                return True
            time.sleep(_CLEANUP_POLL_S)
        return False

    def watch(self, began: Moment) -> None:
        """Wait for the program's end and poll the pollers; `began` is the run's start."""
        pidfd = open_pidfd(self.waiter) if self.waiter else None
        pollers = self._pollers(began)
        if self.shutdown is not None:
            pollers.insert(0, self.shutdown)
        while not self.ended():
            self._take_requests()
            waits = [poller.poll(time.monotonic()) for poller in pollers]
            # Without a descriptor of the waiter the kernel does not report its end.
            without = self.waiter is None or pidfd is None
            waits.append(_WITHOUT_WAITER_S if without else SAFETY_WAKE_S)
            self.wakeups.sleep(min(waits), pidfd if self.waiter is not None else None)
        if pidfd is not None:
            os.close(pidfd)

    def _heed_shutdown(self) -> None:
        """Until the run's end is recorded, systemd's end of machine or login is heard."""
        if _own_job() is None:  # in a Slurm job the same signal is Slurm's
            boot = self.plan["restart"]["boot"]
            self.shutdown = ShutdownNotice(self.run, self.stop.request, survives_boot=boot)

    def let_go(self) -> None:
        """A shutdown may end this process again: the attempt is over, and its end recorded."""
        if self.shutdown is not None:
            self.shutdown.close()

    def _pollers(self, began: Moment) -> list[Poller]:
        # The supervisor restarts the guard and the sampler: on a machine without an open panel
        # nobody else is there to do it.
        home = self.run.home

        def is_there() -> bool:
            return not is_gone(self.run.path)

        pollers: list[Poller] = [
            TimeLimit(self.run, self.plan, began, self._end_by_limit),
            OverrunNotice(self.run),
            SuspensionAlert(self.run),
            self.stop,
            self.output,
            UnmarkedProcesses(self.processes, self.write),
            KeepAlive(
                home.guard / "guard.lock",
                partial(helpers.spawn, "guard", home.root),
                _GUARD_ANEW_S,
                wanted=(home.guard / "guard.json").exists,
            ),
        ]
        watch = partial(helpers.spawn, "watcher", home.root)
        first_s = min(_WATCHED_AFTER_S, (self.plan["stall_after_s"] or _WATCHED_AFTER_S) / 2)
        watcher = KeepAlive(home.watcher_lock, watch, _WATCHER_ANEW_S, wanted=is_there)
        pollers.append(LatePoller(lambda: watcher, first_s))
        if self.plan["checkpoints"]:
            pollers.append(LatePoller(partial(self._checkpoint_keeper, began), _KEPT_AFTER_S))
        if (job := _own_job()) is not None:
            from runners.lifecycle.supervisor.job_watch import JobWatch

            self.job_watch = JobWatch(job, self.wakeups, self.stop, self.check)
            # Before the stop itself is polled: what it asks for then begins at once.
            pollers.insert(0, self.job_watch)
        if self.plan["gpus"]:
            start = partial(helpers.spawn, "start-sampler", home.root)
            pollers.append(KeepAlive(home.sampler_lock, start, _SAMPLER_ANEW_S, wanted=is_there))
        return pollers

    def _checkpoint_keeper(self, began: Moment) -> Poller:
        # Most supervisors live without: dozens of them stay in memory for days.
        from runners.lifecycle.supervisor.checkpoint_retention import CheckpointKeeper

        return CheckpointKeeper(self.run, self.plan, began.wall, self.alert)

    def _take_requests(self) -> None:
        for force in self.wakeups.take_requests():
            self.stop.request_again(force)

    def ended(self) -> bool:
        """True once waiter and program are gone.

        The waiter may have been killed before the program ended.
        """
        self.children.reap()
        if self.waiter is not None and is_zombie(self.waiter):
            self.waiter = self.processes.waiter = None
        if self.waiter is not None:
            return False
        name_exit_status(self.run.exit)
        if self.run.exit.exists() or self.children.exited_by_itself(self.waiter_was):
            return True
        leader = self.run.leader_pid()
        is_reaped = leader is None or leader in self.children.statuses
        if leader is not None and not is_reaped and parent_of(leader) == os.getpid():
            # Our own child that is not reaped yet: its environment is gone before its status comes.
            return False
        return not self.processes.find_last()

    def never_began(self) -> bool:
        """True when its waiter was killed before there was a program: nothing was done yet."""
        if not self.children.was_killed(self.waiter_was) or self.processes.find(thorough=True):
            return False
        # The program's shell notes its pid before it becomes the program.
        traces = (self.run.leader, self.run.exit)
        return not any(path.exists() for path in traces) and not size_of(self.run.output)

    def alert(self, text: str) -> None:
        """Write an alert into the run's events, and send it as a notification."""
        append_event(self.run.supervisor_events, "alert", text=text)
        notify(self.run, "alert", text)

    def _end_by_limit(self, intent: IntentFields) -> None:
        self.alert(ending_text(intent["ending"]))
        self.stop.request(intent)

    def _let_finish(self) -> None:
        """Let processes that heard a rung's signal have its time, though the leader has gone.

        A wrapper often exits at the signal at once, while the trainer below it saves a checkpoint.
        """
        while self.stop.intent is not None and not self.stop.is_over:
            self.children.reap()
            left = self.processes.find()
            if not left or not self.stop.was_received_by(set(left)):
                return
            self._take_requests()
            wait = self.stop.poll(time.monotonic())
            self.wakeups.sleep(min(_WITHOUT_WAITER_S, max(_CLEANUP_POLL_S, wait)))

    def clear_stragglers(self) -> Found:
        """End what the program left behind: wait, SIGTERM, SIGKILL; return what is still alive."""
        self._let_finish()
        began = time.monotonic()
        # After a stop everybody had time already; else a program's helpers may still be ending.
        leave = 0.0 if self.stop.intent is not None else _STRAGGLERS_LEAVE_S
        steps = [(leave, signal.SIGTERM), (leave + _STRAGGLERS_TERM_S, signal.SIGKILL)]
        while True:
            self.children.reap()
            left = self.processes.find_last()
            if not left or time.monotonic() - began > leave + 2 * _STRAGGLERS_TERM_S:
                return left
            if steps and time.monotonic() - began >= steps[0][0]:
                number = steps.pop(0)[1]
                events = self.run.supervisor_events
                append_event(events, "left over", pids=list(left), signal=number.name)
                if number is signal.SIGTERM:
                    self.left_running = [*filter(None, map(_spelled, left))]
                for pid, ticks in left.items():
                    signal_process(pid, ticks, number)
            time.sleep(_CLEANUP_POLL_S)

    def heed_other_ends(self) -> None:
        """Let the stop be one by Slurm, or by the machine's shutdown, where that ended the program.

        Its signal may come to the program before it comes to us.
        """
        is_plain = self.exit_code() in _BY_SIGTERM
        if self.shutdown is not None:
            self.shutdown.heed_end(is_plain)
        if self.job_watch is None:
            return
        # One that saves when it comes, and ends with 0, is no success either.
        until = time.monotonic() + (_SIGNALLED_WITHIN_S if is_plain else _SAVED_WITHIN_S)
        while not self.wakeups.job_signal and time.monotonic() < until:
            self.wakeups.sleep(_CLEANUP_POLL_S)
        self.wakeups.sleep(0.0)
        while self.job_watch.poll(time.monotonic()) == 0.0:
            pass

    def exit_code(self) -> int | None:
        """The program's exit status: by the waiter's file, else by the kernel for our child."""
        status = read_exit_status(self.run.exit)
        if status is not None:
            return status.code
        if self.waiter_was is not None and self.children.exited_by_itself(self.waiter_was):
            return self.children.code(self.waiter_was)
        leader = self.run.leader_pid()
        return None if leader is None else self.children.code(leader)


def _own_job() -> SlurmJob | None:
    """The Slurm job that this process is in, not only the one that it was submitted from."""
    job = slurm_job()
    return job if job is not None and job.node else None


def _spelled(pid: int) -> str:
    """The command of a process; empty where it has ended."""
    from runners.model.masking import mask_text  # most programs leave nothing running

    return mask_text(" ".join(command_of(pid)))[:_LONGEST_COMMAND]


def leader_since(run: RunDirectory) -> float:
    """When the program wrote its pid (unix seconds), for a record without a start.

    The supervisor that started it was killed before it could write that down.
    """
    return modified_at(run.leader) or time.time()


def set_aside(run: RunDirectory, number: int) -> None:
    """Make room for the attempt after `number`, whose output is kept. Raises OSError."""
    # Traces of a program that has ended: with them, the next attempt would look finished.
    for path in (run.exit, Path(draft_of(run.exit)), run.leader, run.pause):
        path.unlink(missing_ok=True)
    earlier = output_set_aside(run.path, number)
    # Done already by a supervisor that was killed: what is there now belongs to the next attempt.
    if run.output.exists() and not earlier.exists():
        run.output.rename(earlier)
