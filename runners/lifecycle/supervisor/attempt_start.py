"""Starting the attempts of a run: when the queue grants its GPUs, with what was kept in memory.

A later one goes on from the run's newest good checkpoint.
"""

import errno
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from runners.host.clock import moment_now
from runners.host.files import append_event, modified_at, read_json
from runners.host.gpu_claims import GpuClaims, claimed
from runners.host.locks import acquire
from runners.host.procfs import HELPER_MARK, start_ticks
from runners.host.slurm_job import slurm_job
from runners.lifecycle.supervisor.attempt import Attempt, leader_since, set_aside
from runners.lifecycle.supervisor.exit_report import judge_unstarted
from runners.lifecycle.supervisor.kept_environment import forget_environment, keep_environment
from runners.lifecycle.supervisor.processes import own_scope
from runners.lifecycle.supervisor.queue_wait import (
    LaunchRefused,
    has_stepped,
    replan,
    wait_for_grant,
)
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.model.endings import Ending, EndingCause
from runners.model.kept_secrets import SecretGone, unmasked_arguments, without_secrets
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import FINAL, PlanFields, RecordFields, plan_fields

if TYPE_CHECKING:
    from runners.host.newest_file import NewestFile

_NO_MORE = "no more processes may be started: `ulimit -u`, or its container's limit"


class AttemptStarter:
    """What starting an attempt takes: the plan, the environment, the locks that programs inherit.

    `kept` are the descriptors of the supervisor's lock and, where it is held, of the run's.
    """

    def __init__(self, directory: RunDirectory, keeper: RecordKeeper, kept: list[int]) -> None:
        self.directory = directory
        self.keeper = keeper
        self.kept = kept
        self.plan: PlanFields = plan_fields(read_json(directory.plan))
        self.claims = GpuClaims(directory.id)
        self.job = slurm_job()
        self.wakeups = WakeupLoop(in_job=self.job is not None)
        self.checkpoints = CheckpointChoice(directory)
        self.environment: dict[str, str] | None = {
            name: value for name, value in os.environ.items() if name != HELPER_MARK
        }
        # Helpers inherit what is left, and may start the supervisors of other runs.
        for name in os.environ.keys() - without_secrets(os.environ).keys():
            del os.environ[name]

    def attempt(self) -> Attempt:
        """An attempt of the run that is not started yet, nor found."""
        keeper = self.keeper
        attempt = Attempt(self.directory, self.plan, self.wakeups, keeper.write, keeper.record)
        attempt.check = keeper.check
        return attempt

    def begin(self) -> Attempt | None:
        """Start the first attempt, or the next one where Slurm starts the run's job anew."""
        record = self.keeper.record
        number = record.get("attempt", 1)
        # Its body may have been killed before it could record that the program had begun.
        if record.get("started") or self.directory.leader.exists():
            self.checkpoints.judge_attempt()
            began = record.get("started") or leader_since(self.directory)
            set_aside(self.directory, number)
            self.keeper.write({"started": began})
            number += 1
        return self.wait_and_start(number)

    def wait_and_start(self, number: int) -> Attempt | None:
        """Start attempt `number` once the queue grants it; None when it ended before that."""
        # Even where the queue granted it before this process began, it has to be planned in full.
        if self.plan["phase"] != FINAL:
            self.keeper.write({"state": State.QUEUED, "reason": "", "attempt": number})
            try:
                if not wait_for_grant(self.directory, self.wakeups):
                    self.end_unstarted()
                    return None
                self.environment = replan(
                    self.directory, self.environment or {}, self.wakeups, self._note_waiting
                )
            except LaunchRefused as refusal:
                ending: Ending = {"cause": EndingCause.REFUSED, "detail": str(refusal)}
                self.keeper.end(self.plan, State.FAILED, ending)
                return None
            if self.environment is None:
                self.end_unstarted()
                return None
            # Before the program starts: if this process dies now, an adopter can still start it.
            keep_environment(self.directory, self.environment)
            self.plan = plan_fields(read_json(self.directory.plan))
        return self.start(number)

    def _note_waiting(self, reason: str) -> None:
        """Record why a run that was granted its GPUs does not start yet."""
        self.keeper.write({"reason": reason})
        append_event(self.directory.supervisor_events, "alert", text=reason)

    def start(self, number: int) -> Attempt | None:
        """Start attempt `number`, a later one from a checkpoint.

        When it cannot start, the run is recorded as failed, and None returned.
        """
        self.keeper.check()
        record = self.keeper.record
        started = record.get("started") or 0.0
        more = self.checkpoints.arguments(self.plan, started) if number > 1 else []
        if self.environment is None:
            self._end_not_started(f"its environment is gone from memory; {self._give_again()}")
            return None
        try:
            argv = unmasked_arguments("argv", self.plan["argv"], self.environment)
            given = self.checkpoints.real_arguments(more, self.plan, self.environment)
        except SecretGone as gone:
            self._end_not_started(f"a secret is gone from memory: {gone}; {self._give_again()}")
            return None
        self.keeper.unobserved = False
        self.claim_gpus()
        attempt = self.attempt()
        # Before it begins: what a program writes at once is its own, however late this process is.
        wall, moment = time.time(), moment_now()
        try:
            attempt.start(
                [*argv, *given],
                without_secrets(self.environment),
                self.kept[1:],
                lambda pid: self.note_starting(number, pid),
            )
        except OSError as error:
            too_many = error.errno == errno.EAGAIN
            self._end_not_started(_NO_MORE if too_many else str(error))
            return None
        first = not record.get("started")
        changes: RecordFields = {
            "state": State.RUNNING,
            "started": record.get("started") or wall,
            "began": record.get("began") or (moment if first else None),
            "cgroup": own_scope(self.directory.id),
        }
        self.keeper.write(changes)
        # No other attempt will need it, and it contains secrets.
        if not self.plan["restart"]["times"]:
            forget_environment(self.directory)
        events = self.directory.supervisor_events
        append_event(events, "state", state="running", attempt=number, arguments=more)
        return attempt

    def note_starting(self, number: int, waiter: int) -> None:
        """Record which process will wait for the program of attempt `number`.

        Before there is a program: the adopter of a supervisor that is killed in between knows what
        was to start, and who has its exit status.
        """
        self.keeper.write(
            {
                "state": State.STARTING,
                "reason": "",
                "attempt": number,
                "next_attempt": None,
                "next_at": None,
                "waiter_pid": waiter,
                "waiter_ticks": start_ticks(waiter),
            }
        )

    def take_run_lock(self) -> None:
        """Hold the run's lock again: an adopter did not inherit it."""
        if len(self.kept) < 2:
            lock = acquire(self.directory.run_lock)
            self.kept += [] if lock is None else [lock]

    def claim_gpus(self) -> None:
        """Tell the machine's other users which GPUs are the run's, before its program uses them."""
        uuids = [gpu["uuid"] for gpu in self.plan["gpus"] if not gpu.get("simulated")]
        if not uuids:
            return
        self.claims.take(uuids)
        others: dict[str, str] = {}
        with suppress(OSError):
            others = claimed(lambda run: self.directory.home.run(run).path.exists())
        for user in sorted({others[uuid] for uuid in uuids if uuid in others}):
            text = f"a GPU of this run is held by a run of user {user}, too"
            append_event(self.directory.supervisor_events, "alert", text=text)

    def end_unstarted(self) -> None:
        """Record that a run was cancelled while it waited, or stopped while it waited again."""
        record = self.keeper.record
        if self.job is not None and self.wakeups.job_signal and not self.directory.stop.exists():
            from runners.lifecycle.supervisor.job_ending import end_waiting  # clusters only

            end_waiting(self.directory, self.plan, self.keeper, self.job, self.wakeups.job_signal)
            return
        state, ending = judge_unstarted(self.directory, bool(record.get("started")))
        self.keeper.end(self.plan, state, ending, record.get("exit_code"))

    def _end_not_started(self, problem: str) -> None:
        """Record that the program could not be started."""
        ending: Ending = {"cause": EndingCause.NOT_STARTED, "detail": problem}
        self.keeper.end(self.plan, State.FAILED, ending)

    def _give_again(self) -> str:
        """The command that launches the run anew, with the secrets that its spec had."""
        from runners.model.masked_plan import give_again, masked_places  # seldom needed

        spec = (read_json(self.directory.plan) or {}).get("spec")
        return give_again(masked_places(spec), self.directory.id).strip()


class CheckpointChoice:
    """The newest whole checkpoint of a run on which no attempt died before its first step."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._chosen: str | None = None
        self._useless: list[str] = []

    def judge_attempt(self) -> None:
        """Find out whether the checkpoint that the failed attempt began from was good."""
        # It died before its first step: most likely of that checkpoint, so an older one is next.
        if self._chosen is not None and has_stepped(self.directory) is False:
            self._useless.append(self._chosen)

    def is_further(self, plan: PlanFields) -> bool:
        """Whether the attempt that has just ended left a whole checkpoint of its own."""
        began = modified_at(self.directory.leader)
        newest = self._newest(plan, began)
        return newest is not None and newest.modified >= began

    def arguments(self, plan: PlanFields, started: float) -> list[str]:
        """The arguments for the next attempt, by the plan's restart rule.

        None without a checkpoint written since `started` (unix seconds).
        """
        checkpoint = self._newest(plan, started)
        template = plan["restart_arguments"]
        self._chosen = checkpoint.path if checkpoint and template else None
        return self._with_checkpoint(template) if checkpoint else []

    def _newest(self, plan: PlanFields, since: float) -> "NewestFile | None":
        # Most supervisors never start anything again, and do without.
        from runners.host.bounded_glob import acting_budget
        from runners.host.newest_file import first_whole, run_files
        from runners.host.printed_paths import PrintedScan

        folder = str(self.directory.path)
        printed = PrintedScan(folder, plan["working_directory"]).poll(is_live=False)
        budget = acting_budget()
        files = run_files(folder, plan["checkpoints"], printed, since, budget)
        if budget.cut:
            text = f"there may be a newer checkpoint than the one it goes on from: {budget.cut}"
            append_event(self.directory.supervisor_events, "alert", text=text)
        return first_whole(file for file in files if file.path not in self._useless)

    def real_arguments(
        self, arguments: list[str], plan: PlanFields, environment: Mapping[str, str]
    ) -> list[str]:
        """What `arguments` gave, with the secrets in them, which are in `environment`.

        Raises SecretGone.
        """
        template = unmasked_arguments("restart_arguments", plan["restart_arguments"], environment)
        return self._with_checkpoint(template) if arguments else []

    def _with_checkpoint(self, template: Sequence[str]) -> list[str]:
        return [word.replace("${checkpoint}", self._chosen or "") for word in template]
