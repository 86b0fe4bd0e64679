"""The supervisor: a small detached process that owns one run, from queue to recorded ending.

Run as `python -I -S supervisor.py STATE_FOLDER RUN [SUPERVISOR_LOCK_FD RUN_LOCK_FD | --job]`. With
the two descriptors it launches the run's plan, or waits with it in the queue; without them it
adopts a run whose supervisor died; with `--job` it is the body of the run's Slurm job; with
`--anew SUPERVISOR_LOCK_FD` (behind `--job` where it is one) it is the same process, after its
source was replaced. Standard library only, without any import that would make it bigger: dozens of
these live for days.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

if __name__ == "__main__":
    gc.disable()  # until all is imported: none of it is garbage
# Run by its path, isolated: the folder that contains `runners` is four levels up.
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path.insert(0, _ROOT)

from runners.host import helpers
from runners.host.files import append_event, is_gone, read_json
from runners.host.identity import boot_time, host_name, is_past
from runners.host.locks import acquire, is_held_beside
from runners.host.procfs import environment_of, mark_of
from runners.host.quick_pathlib import Path
from runners.host.replaced_code import begin_anew_when_replaced
from runners.lifecycle.supervisor.attempt import Attempt, leader_since, set_aside
from runners.lifecycle.supervisor.attempt_start import AttemptStarter
from runners.lifecycle.supervisor.exit_report import add_doubts, judge_ending, still_held
from runners.lifecycle.supervisor.job_ending import (
    JobLives,
    is_of_another_job,
    put_back,
    settled_ending,
    starts_anew,
)
from runners.lifecycle.supervisor.kept_environment import kept_environment
from runners.lifecycle.supervisor.ledger_entry import append_run
from runners.lifecycle.supervisor.queue_wait import (
    is_awaited,
    is_unwanted,
    requeue,
)
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.lifecycle.supervisor.restarts import (
    PUT_OFF,
    Restart,
    await_machine,
    coming_restart,
    is_put_off,
    next_restart,
)
from runners.model.endings import Ending, EndingCause, ending_text, holding_text
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.records import (
    FINAL,
    RecordFields,
    plan_fields,
    record_fields,
)
from runners.state.trust import run_permission_problem
from runners.state.vanished import vanished_ending

_UNBEGUN = 3
"""So often is a program started again whose waiter was killed before there was a program."""


class Supervisor:
    """One run's owner: waits with it, launches or adopts it, restarts it, records how it ended."""

    def __init__(self, directory: RunDirectory, kept: list[int], anew: bool = False) -> None:
        self.directory = directory
        self.anew = anew
        self.keeper = RecordKeeper(directory, record_fields(read_json(directory.state)))
        self.starter = AttemptStarter(directory, self.keeper, kept)
        self.unbegun = 0

    @property
    def record(self) -> RecordFields:
        """What was last recorded of the run."""
        return self.keeper.record

    def run(self, adopting: bool) -> None:
        """Bring the run to its recorded ending."""
        plan, inside = self.starter.plan, self.starter.job
        if adopting and not self.anew and is_of_another_job(self.directory, plan, inside):
            from runners.lifecycle.supervisor.job_owner import JobOwner, Superseded  # clusters only

            self.keeper.unobserved = True
            self.keeper.check = JobOwner(self.directory).check
            with suppress(JobLives, Superseded):
                state, ending, code = settled_ending(self.directory, self.starter.plan, self.record)
                if not self.put_back(ending, code, is_over=True):
                    self.keeper.end(self.starter.plan, state, ending, code)
            return
        attempt = self.find_attempt() if adopting else self.starter.begin()
        while attempt is not None:
            attempt.watch(self.keeper.began())
            attempt = self.finish(attempt)
        self.starter.claims.release()

    # ── adopting ──────────────────────────────────────────────────────────────────────────────────

    def find_attempt(self) -> Attempt | None:
        """Take over a run whose supervisor died: watch, wait, start again, or record its end."""
        self.keeper.unobserved = not self.anew
        boot = self.record.get("boot_id", "")
        if is_held_beside(self.directory.run_lock, boot):
            return None
        if is_past(boot):
            return self.after_reboot()
        attempt = self.starter.attempt()
        # Read before anything is decided: starting the last attempt removes it.
        kept = kept_environment(self.directory)
        if self.record.get("next_attempt"):
            self.starter.environment = kept
            return self.resume()
        if attempt.find(self.record):
            return self.adopt(attempt, kept)
        if self.never_began() and (kept is not None or self.starter.plan["phase"] != FINAL):
            if kept is None:
                attempt.alert(
                    "adopted while it waited; the environment of its launch is gone, so it "
                    "will start in that of whoever adopted it"
                )
            self.starter.environment = kept or self.starter.environment
            return self.resume()
        if self.record.get("started"):
            self.end(*vanished_ending(self.directory))
        else:
            self.end(State.FAILED, {"cause": EndingCause.INTERRUPTED})
        return None

    def after_reboot(self) -> Attempt | None:
        """Wait on, or queue again what its preset says survives a reboot; else it is lost."""
        ending: Ending = {"cause": EndingCause.REBOOTED, "rebooted": boot_time()}
        waited = self.never_began()
        put_off = is_put_off(self.directory, self.starter.plan)
        again = self.starter.plan["restart"]["boot"] and not self.directory.stop.exists()
        if not (waited or again or put_off):
            self.end(State.LOST, ending)
            return None
        self.keeper.unobserved = False
        if put_off:
            self.directory.stop.unlink(missing_ok=True)
        number = self.record.get("attempt", 1) + (0 if waited else 1)
        # What was in memory is gone: the environment of the launch, and the secrets in it.
        text = f"{ending_text(ending)}: queued again, in the environment of whoever adopted it"
        self.note("alert", text=text)
        try:
            self.starter.plan = requeue(self.directory, host=host_name())
        except OSError as error:
            self.end(State.LOST, {**ending, "detail": str(error)})
            return None
        changes: RecordFields = {"stop": None, "next_attempt": None, "next_at": None}
        if not waited:
            # Its checkpoints are those since then, also where that was not recorded any more.
            changes["started"] = self.record.get("started") or leader_since(self.directory)
            set_aside(self.directory, number - 1)
        # At once: with this boot and its former state, an adopter would take it for one that ended.
        queued: RecordFields = {"state": State.QUEUED, "reason": "", "attempt": number}
        self.keeper.write({**changes, **queued})
        self.starter.take_run_lock()
        return self.starter.wait_and_start(number)

    def adopt(self, attempt: Attempt, kept: dict[str, str] | None) -> Attempt:
        """Continue with a program that still runs, or whose ending is to be recorded."""
        self.keeper.unobserved = not self.anew and self.directory.exit.exists()
        leader = self.directory.leader_pid()
        # The leader's environment serves for later attempts where it certainly is this run's.
        proven = leader is not None and mark_of(leader) == self.directory.id
        self.starter.environment = kept or (environment_of(leader) if leader and proven else None)
        self.note("adopted", by=os.getpid())
        self.starter.claim_gpus()
        self.keeper.write(
            {
                "state": State.STOPPING if self.directory.stop.exists() else State.RUNNING,
                "started": self.record.get("started") or leader_since(self.directory),
            }
        )
        return attempt

    def never_began(self) -> bool:
        """True when nothing of the attempt that was to start has ever run."""
        state = self.record.get("state", State.STARTING)
        traces = (self.directory.exit, self.directory.leader)
        return state.is_unstarted and not any(p.exists() for p in traces)

    def resume(self) -> Attempt | None:
        """Do what the dead supervisor was about to do: wait for GPUs, start, or start again."""
        self.keeper.unobserved = False
        self.note("adopted", by=os.getpid())
        self.starter.take_run_lock()
        coming = coming_restart(self.record, self.starter.plan["restart"])
        if coming is not None:
            return self.start_again(coming)
        if self.directory.stop.exists():
            self.starter.end_unstarted()
            return None
        return self.starter.wait_and_start(self.record.get("attempt", 1))

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    def finish(self, attempt: Attempt) -> Attempt | None:
        """After the program's end: clean up, then record how it ended, or start it again.

        Returns None at the end.
        """
        attempt.heed_other_ends()
        left = list(attempt.clear_stragglers())
        # After the last writer is gone, or its next line would be lost.
        attempt.output.compact()
        code = attempt.exit_code()
        group = attempt.processes.cgroup
        state, ending = judge_ending(
            self.directory, attempt.stop.read(), code, group, attempt.kills_before
        )
        if state is State.DONE:
            add_doubts(ending, self.directory, self.starter.plan["argv"], attempt.left_running)
        held: list[tuple[int | None, int]] = [(None, pid) for pid in left]
        held = held or still_held(self.directory, self.starter.plan)
        if held:
            attempt.alert(holding_text(held))
            ending["holding"] = held
        number = self.record.get("attempt", 1)
        if is_gone(self.directory.path):
            self.end(state, ending, code, left)
            return None
        if state is State.LOST and self.unbegun < _UNBEGUN and attempt.never_began():
            self.unbegun += 1
            return self.starter.start(number)
        if not held and self.put_back(ending, code):
            return None
        if not held and is_put_off(self.directory, self.starter.plan):
            return self.put_off(number + 1, ending, code)
        # Not while something still holds a GPU: the next attempt would run out of memory.
        if state is State.FAILED and not held:
            rule, is_further = self.starter.plan["restart"], self.starter.checkpoints.is_further
            if coming := next_restart(number, rule, ending, lambda: is_further(self.starter.plan)):
                return self.restart(attempt, coming, ending, code)
        self.end(state, ending, code, left)
        return None

    def restart(
        self, before: Attempt, coming: Restart, ending: Ending, code: int | None
    ) -> Attempt | None:
        """Wait a while and start the coming attempt; None when a stop came."""
        self.note("restart", ending=ending, exit_code=code, seconds=coming.pause_s)
        reason = f"{ending_text(ending, code)}; {coming.text()}"
        self.keeper.write({"reason": reason, "exit_code": code, **coming.fields()})
        before.let_go()
        return self.start_again(coming)

    def put_back(self, ending: Ending, code: int | None, is_over: bool = False) -> bool:
        """Have the run wait for its job to begin anew; False where the rule has no such restart.

        `is_over`: Slurm says that the job has ended, and will not put it back by itself.
        """
        plan, record = self.starter.plan, self.record
        # One that was put back has had its turn where its job has ended in another way since.
        has_had = record.get("state") is State.QUEUED and "detail" in ending
        if has_had or not starts_anew(ending, record.get("attempt", 1), plan["restart"]):
            return False
        put_back(self.directory, plan, self.keeper, ending, code, is_over)
        return True

    def put_off(self, number: int, ending: Ending, code: int | None) -> Attempt | None:
        """Go on when the machine is back, here where it stays after all; None when a stop came."""
        coming = Restart(number, number, 0.0, 0.0)
        self.note("restart", ending=ending, exit_code=code, seconds=0.0)
        reason = f"{ending_text(ending, code)}; {PUT_OFF}"
        self.keeper.write({"reason": reason, "exit_code": code, "stop": None, **coming.fields()})
        return self.start_again(coming)

    def start_again(self, coming: Restart) -> Attempt | None:
        """Start the coming attempt when it is due, from the newest complete checkpoint.

        What a supervisor that was killed had already done of this is not done twice.
        """
        if is_put_off(self.directory, self.starter.plan):
            self.directory.stop.unlink(missing_ok=True)
        coming.wait(self.starter.wakeups, self.is_unwanted)
        await_machine(self.directory, self.starter.wakeups, self.is_unwanted)
        if self.is_unwanted():
            self.starter.end_unstarted()
            return None
        self.starter.checkpoints.judge_attempt()
        set_aside(self.directory, coming.number - 1)
        self.starter.take_run_lock()
        return self.starter.start(coming.number)

    def note(self, kind: str, **fields: object) -> None:
        """Write an event of the run."""
        append_event(self.directory.supervisor_events, kind, **fields)

    def is_unwanted(self) -> bool:
        """True when somebody wants the run stopped, or has removed it."""
        return is_unwanted(self.directory, self.starter.wakeups)

    def end(
        self, state: State, ending: Ending, code: int | None = None, left: Sequence[int] = ()
    ) -> None:
        """Record how the run ended; processes in `left` are still alive."""
        self.keeper.end(self.starter.plan, state, ending, code, left)


def _go_on_when_replaced(run: RunDirectory, lock: int, *options: str) -> None:
    """Be a supervisor of the new source, with the run's `lock`, once ours is replaced."""
    begins = helpers.command("supervisor", run.home.root, run.id, *options, "--anew", str(lock))
    begin_anew_when_replaced(begins, [lock])


def supervise(run: RunDirectory, descriptors: list[int], anew: bool = False) -> None:
    """Own the run until it has ended; return at once when another supervisor does."""
    kept = descriptors or [acquire(run.supervisor_lock) or -1]
    if kept[0] < 0:
        return
    for descriptor in kept:
        # A program that inherited supervisor.lock would hide our death for ever.
        os.set_inheritable(descriptor, False)
    record = record_fields(read_json(run.state))
    # The one before was killed between its last two writes: ledger and marker are left to do.
    if record and not record["state"].is_live:
        append_run(run, plan_fields(read_json(run.plan)), record)
        run.home.live_marker(run.id).unlink(missing_ok=True)
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _go_on_when_replaced(run, kept[0])
    Supervisor(run, kept, anew).run(adopting=anew or not descriptors)
    if is_awaited(run):
        helpers.become("dispatch", run.home.root)


def supervise_job(root: str, run_id: str, kept: list[int], anew: bool) -> int:
    """Own the run as the body of its Slurm job, to the job's exit code: 0 where the run is done."""
    from runners.lifecycle.supervisor.job_body import begin_job, give_way, go_on  # clusters only
    from runners.lifecycle.supervisor.job_owner import Superseded

    begun = go_on(root, run_id, kept) if anew else begin_job(root, run_id)
    if begun is None:
        return 1
    run, kept, owner = begun
    _go_on_when_replaced(run, kept[0], "--job")
    supervisor = Supervisor(run, kept, anew)
    supervisor.keeper.check = owner.check
    if not anew:
        # This job's GPUs are for this run alone: it need not wait until somebody looks.
        helpers.run("dispatch", root)
    try:
        supervisor.run(adopting=anew)
    except Superseded as other:
        return give_way(run, supervisor.record, owner, str(other))
    owner.leave()
    return 0 if supervisor.record.get("state") is State.DONE else 1


def main() -> None:
    """Detach from whoever started us, then supervise."""
    gc.freeze()
    gc.enable()
    root, run_id, more = sys.argv[1], sys.argv[2], sys.argv[3:]
    descriptors, anew = [int(word) for word in more if word.isdecimal()], "--anew" in more
    if "--job" in more:
        sys.exit(supervise_job(root, run_id, descriptors, anew))
    run = StateDirectory(Path(root)).run(run_id)
    reason = run_permission_problem(run)
    if reason:
        sys.exit(f"refused: {reason}")
    if not anew and os.fork():
        os._exit(0)
    # The parent's exit tells the launcher that the supervisor has detached.
    supervise(run, descriptors, anew)


if __name__ == "__main__":
    main()
