"""Jobs of one's own that were not launched here: listed, followed, cancelled when asked to."""

from tests.slurm.cluster import Cluster
from tests.support import eventually


def test_jobs_submitted_by_other_means(cluster: Cluster) -> None:
    """A run's own job is none of them; a listed one goes on untouched until `--stop --yes`."""
    line, lab = cluster.line, cluster.lab
    go, output = line.folder / "go", line.folder / "out"
    loop = f"echo first; until [ -e {go} ]; do sleep 0.1; done; echo last"
    mine = lab.submit(loop, "--job-name=by-hand", f"--output={output}")
    other = lab.submit("sleep 600", "--job-name=../odd", "--array=0-3")
    line.launch("--slurm", "--gpus", "1", "--", "sleep", "600")
    eventually(lambda: lab.job(mine)["JobState"] == "RUNNING", what="the job runs")
    (line.state.slurm / "jobs.json").unlink(missing_ok=True)  # what was asked a moment ago
    jobs = line.json("adopt")["jobs"]
    assert {job["name"] for job in jobs} == {"by-hand", "../odd"}
    assert {job["job"].partition("_")[0] for job in jobs} == {mine, other}
    assert line.json("adopt", mine)["output"] == str(output)
    follower = line.begin("adopt", mine, "-f")
    eventually(lambda: output.exists() and "first" in output.read_text(), what="output")
    go.touch()
    eventually(lambda: lab.job(mine)["JobState"] == "COMPLETED", what="the job's end")
    (line.state.slurm / "jobs.json").unlink()
    text, _ = follower.communicate(timeout=60)
    assert text.split() == [b"first", b"last"]

    line.run("adopt", other, "--stop", exits=2)  # a question, and nobody to answer it
    assert lab.job(other)["JobState"] == "RUNNING"
    line.run("adopt", other, "--stop", "--yes")
    eventually(lambda: lab.job(other)["JobState"] == "CANCELLED", what="the array cancelled")
    line.run("adopt", "999999", exits=3)
