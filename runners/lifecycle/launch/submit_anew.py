"""Submits the job of a run once more, where the one before has ended and Slurm puts none back.

    python -m runners.lifecycle.launch.submit_anew RUN_DIRECTORY

Prints as JSON what prevents it, or nothing. Run as a helper, by the run's supervisor.
"""

import json
import sys
import time

import msgspec

from runners.host.files import read_plain
from runners.lifecycle.launch.submit import submit_script
from runners.model.errors import FresnelError
from runners.slurm.job_end import is_settled
from runners.state.jobs import number_job, read_job, write_job
from runners.state.layout import RunDirectory

_DEPENDS = ("#SBATCH --dependency", "#SBATCH --kill-on-invalid-dep")
"""What it waited for was over when it began: Slurm may have forgotten that, and would refuse."""


def submit_anew(run: RunDirectory, times: int, is_inside: bool) -> str:
    """Submit it, as its script says, at most `times` more in all; why not, or nothing.

    `is_inside`: by the body of the job before, which is about to end.
    """
    note = read_job(run)
    if note is None or not run.environment.exists():
        return "it is no job of its own" if note is None else "its environment is gone"
    if note.submissions > times:
        return f"it was submitted {note.submissions} times"
    if not is_inside and note.id and not is_settled(note.id):
        return _NOT_YET
    script = run.home.slurm / f"{note.name}.sh"
    again = run.home.slurm / f"{note.name}.again.sh"
    try:
        lines = read_plain(script).decode().splitlines()
        kept = [line for line in lines if not line.startswith(_DEPENDS)]
        again.write_text("\n".join([*kept, ""]))
        again.chmod(0o700)
        # Before it is submitted: should the answer be lost, the job is found by its name.
        anew = msgspec.structs.replace(
            note, id="", submitted=time.time(), submissions=note.submissions + 1
        )
        write_job(run, anew)
        task = [] if note.task is None else [f"--array={note.task}"]
        number, remark = submit_script(run.home, again, *task)
    except (FresnelError, OSError) as problem:
        write_job(run, note)
        return problem.message if isinstance(problem, FresnelError) else str(problem)
    number_job(run, anew, number, remark)
    return ""


_NOT_YET = "not yet"
"""Slurm still clears what is left of the job before: it may put it back itself."""


def main() -> None:
    """Submit the job of the run on the command line: its folder, the limit, `inside` or nothing."""
    folder, times, *where = sys.argv[1:]
    problem = submit_anew(RunDirectory.at(folder), int(times), where == ["inside"])
    json.dump({"problem": problem, "later": problem == _NOT_YET}, sys.stdout)
