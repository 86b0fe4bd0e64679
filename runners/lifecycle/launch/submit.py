"""Runs handed to Slurm: one submission for all that are alike, whose body is their supervisor.

The program's environment, which may have secrets, goes into a file that only its user reads, never
into that of the job: Slurm keeps a job's environment, and shows it to its administrators. For what
a run comes after, Slurm itself waits.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from runners.host.files import replace
from runners.host.helpers import command
from runners.lifecycle.supervisor.kept_environment import pack_environment
from runners.model.errors import DeniedError
from runners.model.pending import limit_text
from runners.model.plan import is_job
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import judge_after
from runners.slurm.client import SlurmRefused, SlurmSilent, SlurmUnreached, ask_both, remarks
from runners.slurm.options import RUNS_AT_ONCE, keys_of, options_of, script_of
from runners.slurm.queue import refresh
from runners.state.job_status import job_number
from runners.state.jobs import JobNote, number_job, read_table, write_job
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

_SUBMITTED_WITHIN_S = 30.0
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM")
_OF_SLURM = ("SBATCH_", "SLURM_CONF", "SLURM_CLUSTERS")
# A job of ours exits with 0 where its run is done, and else with 1.
_TYPES = {"success": "afterok", "failure": "afternotok", "any": "afterany"}


class Submission(NamedTuple):
    """Runs that are one job, or one array of jobs: their ids, and the script."""

    name: str
    runs: tuple[str, ...]
    script: str


def submissions(
    state: StateDirectory, runs: Iterable[tuple[str, RunSpec]]
) -> tuple[Submission, ...]:
    """What is submitted for `runs`, by id: those with the same options are one array of jobs.

    Raises DeniedError where one waits for what Slurm cannot wait for.
    """
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[str, RunSpec]]] = {}
    for run_id, spec in runs:
        if keys_of(spec) is None:
            continue
        key = tuple(options_of(spec, "", "")), tuple(dependency_options(state, spec))
        alike.setdefault(key, []).append((run_id, spec))
    found = []
    for (_, after), members in alike.items():
        for first in range(0, len(members), RUNS_AT_ONCE):
            found.append(_submission(state, members[first : first + RUNS_AT_ONCE], after))
    return tuple(found)


def _submission(
    state: StateDirectory, members: Sequence[tuple[str, RunSpec]], after: Sequence[str]
) -> Submission:
    ids, spec = tuple(run_id for run_id, _ in members), members[0][1]
    name = ids[0] if len(ids) == 1 else f"{spec.group or spec.name}-{ids[0].rpartition('-')[2]}"
    output = state.slurm / ("%A_%a.log" if len(ids) > 1 else "%j.log")
    options = [*options_of(spec, name, str(output), len(ids)), *after]
    return Submission(name, ids, script_of(options, command("supervisor", state.root), ids))


def submit(
    state: StateDirectory,
    submission: Submission,
    environments: Mapping[str, Mapping[str, str]],
) -> None:
    """Submit what was written to disk already.

    Raises DeniedError when Slurm refuses it, or cannot be reached. When it was reached and does not
    answer, it may have taken the job all the same: the runs stay, and are found by the job's name.
    """
    state.slurm.mkdir(mode=0o700, exist_ok=True)
    script = state.slurm / f"{submission.name}.sh"
    script.write_text(submission.script)
    script.chmod(0o700)
    is_array = len(submission.runs) > 1
    notes = [
        JobNote(submission.name, time.time(), task=i if is_array else None)
        for i in range(len(submission.runs))
    ]
    for run_id, note in zip(submission.runs, notes, strict=True):
        run = state.run(run_id)
        replace(run.environment, pack_environment(environments[run_id]))
        write_job(run, note)
    number, remark = submit_script(state, script)
    for run_id, note in zip(submission.runs, notes, strict=True):
        number_job(state.run(run_id), note, number, remark)
    if number and read_table(state)[0].problem:
        refresh(state, every_s=0.0)  # it answers again


def submit_script(state: StateDirectory, script: Path, *options: str) -> tuple[str, str]:
    """Submit a script; its job's number, and what a site's rules say beside it.

    Both are empty where no answer came: Slurm may have taken it. Raises DeniedError when Slurm
    refuses it, or cannot be reached.
    """
    try:
        answer, beside = ask_both(
            ("sbatch", "--parsable", f"--chdir={state.root}", *options, str(script)),
            within_s=_SUBMITTED_WITHIN_S,
            environment=submitting_environment(),
        )
    except SlurmRefused as refusal:
        name = refusal.message.partition(";")[0]
        text = f"{limit} ({name})" if (limit := limit_text(name)) else refusal.message
        raise DeniedError(f"Slurm refuses it: {text}", _hint(text)) from None
    except SlurmUnreached as problem:
        hint = "`sinfo` shows whether it answers; then launch it again"
        raise DeniedError(f"Slurm is not reached: {problem.message}", hint) from None
    except SlurmSilent:
        return "", ""
    # A site's wrapper may print its own lines, before the number or after it.
    lines = answer.splitlines()
    numbers = [line for line in lines if line.strip().partition(";")[0].isdecimal()]
    others = [line for line in lines if line not in numbers[-1:]]
    number = numbers[-1].strip().partition(";")[0] if numbers else ""
    return number, remarks("\n".join([*others, beside]))


def submitting_environment() -> dict[str, str]:
    """The variables that sbatch itself gets, and passes on to the job."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(("LC_", *_OF_SLURM))
    }


def test_only(submission: Submission) -> str:
    """What Slurm says of a submission that is not made: when it would start, or why not."""
    # A plan writes nothing into the state folder.
    with NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(submission.script)
        script.flush()
        try:
            _, answer = ask_both(
                ["sbatch", "--test-only", script.name], environment=submitting_environment()
            )
        except (SlurmRefused, SlurmSilent) as problem:
            return problem.message
    return answer.rpartition("sbatch: ")[2].strip() or "Slurm would take it"


def _hint(refusal: str) -> str:
    """What to do about a refusal of sbatch; its texts are those of Slurm's slurm_errno.c."""
    for part, hint in _HINTS.items():
        if part in refusal.lower():
            return hint
    return "`fresnel-tui plan … --slurm` shows the script and what Slurm says of it"


_HINTS = {
    "limit of its qos": "`sacctmgr show qos` shows what it allows: another --qos, or less",
    "limit of its account": "`sacctmgr show assoc user=$USER` shows what it allows",
    "partition not available": "`sinfo -s` lists the partitions: --partition NAME",
    "memory specification": "`sinfo -o '%P %m'` shows what its nodes have: --mem",
    "invalid partition": "`sinfo -s` lists the partitions: --partition NAME",
    "invalid account": "`sacctmgr show assoc user=$USER` lists yours: --account NAME",
    "invalid qos": "`sacctmgr show assoc user=$USER format=qos` lists yours: --qos NAME",
    "time limit": "`sinfo -o '%P %l'` shows the longest of each partition: --time TIME",
    "requested node configuration": "`sinfo -o '%P %G %c %m'` shows what its nodes have",
    "generic resource": "`sinfo -o '%P %G'` shows which GPUs there are: place.slurm.gres",
    "constraint": "`sinfo -o '%P %f'` shows the features of its nodes",
    "feature": "`sinfo -o '%P %f'` shows the features of its nodes",
}


def dependency_options(state: StateDirectory, spec: RunSpec) -> Sequence[str]:
    """The options of sbatch for what `spec` waits for; none where that has ended as it should.

    Raises DeniedError where Slurm cannot wait for it, or it would do so for ever.
    """
    after = spec.after
    if after is None or keys_of(spec) is None:
        return ()
    path = state.run(after.run).path
    run = read_run(state, after.run) if path.is_dir() else None
    if run is None or not run.is_live:
        ending = State.LOST if run is None else run.state
        if isinstance(found := judge_after(after, {after.run: ending}), Denied):
            raise DeniedError(found.reason, found.hint)
        return ()
    if not is_job(run.plan):
        raise DeniedError(
            f"{run.id} runs here and is no Slurm job: Slurm cannot wait for it",
            f"`fresnel-tui wait {run.id}`, then launch this one",
        )
    number = job_number(state.run(run.id))
    if not number:
        raise DeniedError(f"the job of {run.id} is not known yet", "try again in a minute")
    # Else some clusters cancel what can never start, and why is lost.
    return (f"--dependency={_TYPES[after.on]}:{number}", "--kill-on-invalid-dep=no")
