"""What Slurm said last of the job that a run is, as names and values."""

from runners.host.clock import local_time
from runners.model.pending import job_waits
from runners.model.run import Run
from runners.slurm.expected_start import expected_start
from runners.state.job_status import job_number, row_of
from runners.state.jobs import read_job
from runners.state.layout import StateDirectory
from tui.views.format import duration


def job_pairs(run: Run, state: StateDirectory) -> list[tuple[str, str]]:
    """Number, partition and node, and when its time limit ends it; empty without a job."""
    directory = state.run(run.id)
    note = read_job(directory)
    number = job_number(directory)
    if note is None or not number:
        return []
    pairs = [("Slurm job", number), *([("said at its launch", note.remark)] if note.remark else [])]
    row = row_of(directory, note)
    if row is None or not run.is_live:
        return pairs
    pairs += [("partition", row.partition), ("node", row.nodes)]
    if job_waits(row.state):
        expected = expected_start(state, row)
        if expected.before:
            where = f"in {row.partition}, as far as you may see them"
            pairs.append(("jobs before it", f"{expected.before} {where}"))
        if expected.at is not None:
            when = local_time(expected.at, "%Y-%m-%d %H:%M")
            pairs.append(("expected start", f"{when}, as Slurm plans now"))
    if row.limit_s is not None:
        ends = row.ends if row.state == "RUNNING" else None
        when = f", ends {local_time(ends, '%Y-%m-%d %H:%M')} at the latest" if ends else ""
        pairs.append(("job's time limit", f"{duration(row.limit_s)}{when}"))
    return [(name, value) for name, value in pairs if value]
