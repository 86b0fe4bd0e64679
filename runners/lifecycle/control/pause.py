"""Pausing a run by SIGSTOP to all its processes, and letting it go on; neither frees anything."""

import math
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from runners.cost.cost_reader import costs_of
from runners.host.files import append_event, replace
from runners.host.identity import user_name
from runners.host.locks import is_held_beside
from runners.host.procfs import process_state, start_ticks, switches_of
from runners.host.signals import signal_process
from runners.lifecycle.launch.preconditions import refuse_other_host, refuse_untrusted_run
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.spawn import supervisor_of
from runners.model.errors import DeniedError, FresnelError, WrongInput
from runners.model.run import Pause, Run
from runners.model.units import gpus_text
from runners.slurm.client import SlurmRefused, SlurmSilent, ask
from runners.state.codec import read_record
from runners.state.job_status import job_number
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import read_run

_WITHIN_S = 5.0
_POLL_S = 0.01


def pause(state: StateDirectory, run: Run) -> Run:
    """Stop all processes of a run where they are, and note who did it; returns the run as it is.

    Raises WrongInput when it does not run or is paused already, DeniedError for another host's run,
    FresnelError when not all of its processes could be stopped.
    """
    directory = _pausable(state, run, "pause")
    if run.pause is not None:
        raise WrongInput(f"{run.id} is paused already", f"`fresnel-tui continue {run.id}`")
    # Written first: whoever looks in between sees who it is.
    note = Pause(user_name(), time.time())
    replace(directory.pause, msgspec.json.encode(note))
    if not _send_until(directory, signal.SIGSTOP, lambda letter: letter in "TtZX"):
        proceed(state, read_run(state, run.id))
        raise FresnelError(f"{run.id}: not all of its processes could be stopped; it goes on")
    try:
        _signal_nodes(run, directory, "STOP")
    except FresnelError:
        proceed(state, read_run(state, run.id))
        raise
    leader = directory.leader_pid()
    if leader is not None:
        note = msgspec.structs.replace(note, switches=switches_of(leader))
        replace(directory.pause, msgspec.json.encode(note))
    append_event(directory.supervisor_events, "pause", by=user_name())
    return read_run(state, run.id)


def paused_text(runs: Sequence[Run]) -> str:
    """What a pause does not save, in words: the GPUs that are kept, and dollars per hour."""
    count = sum(len(run.plan.gpus) for run in runs if run.plan)
    costs = costs_of(RunDirectory.at(runs[0].directory).home, runs)
    rates = [rate for run in runs if (rate := costs.of(run).rate) is not None]
    paid = f", ${sum(rates):,.2f}/h goes on" if rates else ""
    is_paused, it = ("is paused and frees", "it keeps")
    if len(runs) > 1:
        is_paused, it = ("are paused and free", "they keep")
    kept = f": {it} {gpus_text(count)}" if count else ""
    return f"{is_paused} nothing{kept}{paid}"


def proceed(state: StateDirectory, run: Run) -> Run:
    """Let a paused run go on, whoever paused it; returns the run as it is then.

    Raises WrongInput when it is not paused, DeniedError for another host's run.
    """
    directory = _pausable(state, run, "continue")
    if run.pause is None and not directory.pause.exists():
        raise WrongInput(f"{run.id} is not paused: it is {run.state}")
    _signal_nodes(run, directory, "CONT")
    _send_until(directory, signal.SIGCONT, lambda letter: letter != "T")
    directory.pause.unlink(missing_ok=True)
    append_event(directory.supervisor_events, "continue", by=user_name())
    return read_run(state, run.id)


def _signal_nodes(run: Run, directory: RunDirectory, name: str) -> None:
    """Signal the program on all nodes of a run's Slurm job, if it has several. DeniedError."""
    nodes = run.plan.spec.node if run.plan is not None else None
    if nodes is None or not nodes.by_slurm:
        return
    try:
        ask("scancel", f"--signal={name}", job_number(directory))
    except (SlurmRefused, SlurmSilent) as problem:
        raise DeniedError(f"Slurm does not reach the other nodes: {problem.message}") from None


def _pausable(state: StateDirectory, run: Run, what: str) -> RunDirectory:
    refuse_other_host(run, what)
    directory = state.run(run.id)
    refuse_untrusted_run(directory)
    if run.record is not None and is_held_beside(directory.run_lock, run.record.boot_id):
        raise DeniedError(f"{run.id} runs in another container: its processes are seen only there")
    if not run.state.has_program:
        raise WrongInput(f"{run.id} does not run: it is {run.state}")
    return directory


def _send_until(directory: RunDirectory, number: int, is_done: Callable[[str], bool]) -> bool:
    """Signal every process of the run until all are as wanted: a program may fork meanwhile.

    They have their time from the first signal on: the look before it takes long on a busy machine.
    """
    processes = RunProcesses(directory)
    supervisor = supervisor_of(directory)
    processes.reaper = supervisor[0] if supervisor else None
    record = read_record(directory)
    processes.waiter = record.waiter_pid if record else None  # it only waits
    until = math.inf
    while True:
        found = processes.find(thorough=True)
        left = {pid: ticks for pid, ticks in found.items() if not is_done(process_state(pid))}
        if not left:
            return True
        now = time.monotonic()
        if now > until:
            return False
        until = min(until, now + _WITHIN_S)
        for pid, ticks in left.items():
            if start_ticks(pid) == ticks:
                signal_process(pid, ticks, number)
        time.sleep(_POLL_S)
