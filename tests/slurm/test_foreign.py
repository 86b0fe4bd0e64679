"""Jobs of one's own that were not launched here: listed, followed, cancelled when asked to."""

import json

import msgspec

from runners.model.endings import JobEnd
from runners.places.actions import Outcome, StarRuns, StopRuns
from runners.slurm.foreign_jobs import foreign_jobs
from runners.slurm.job_end import end_of_job, is_in_queue
from runners.slurm.queue import refresh
from runners.state.job_status import is_over
from runners.state.jobs import write_table
from tests.slurm.cluster import Cluster
from tests.support import CEILING_S, eventually
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane


def test_jobs_submitted_by_other_means(cluster: Cluster) -> None:
    """A run's own job is none of them; a listed one goes on untouched until `--stop --yes`."""
    line, lab = cluster.line, cluster.lab
    go, output = line.folder / "go", line.folder / "out"
    loop = f"echo first; until [ -e {go} ]; do sleep 0.1; done; echo last"
    asked = refresh(line.state.create(), every_s=0.0)  # by whoever looked before
    mine = lab.submit(loop, "--job-name=by-hand", f"--output={output}")
    other = lab.submit("sleep 600", "--job-name=../odd", "--array=0-3")
    line.launch("--slurm", "--gpus", "1", "--", "sleep", "600")
    eventually(lambda: lab.job(mine)["JobState"] == "RUNNING", what="the job runs")
    write_table(line.state, msgspec.structs.replace(asked, asked=asked.asked - 5))
    jobs = line.json("adopt")["jobs"]
    assert {job["name"] for job in jobs} == {"by-hand", "../odd"}
    assert {job["job"].partition("_")[0] for job in jobs} == {mine, other}
    assert line.json("adopt", mine)["output"] == str(output)
    follower = line.begin("adopt", mine, "-f")
    # The job ends only once it is followed: one that is over is none to follow.
    assert follower.stdout is not None and follower.stdout.readline() == b"first\n"
    go.touch()
    eventually(lambda: lab.job(mine)["JobState"] == "COMPLETED", what="the job's end")
    (line.state.slurm / "jobs.json").unlink()
    text, _ = follower.communicate(timeout=CEILING_S)
    assert text == b"last\n"

    # Its four tasks begin one after another.
    eventually(lambda: lab.job(other)["JobState"] == "RUNNING", what="the array runs")
    line.run("adopt", other, "--stop", exits=4)  # a question, and nobody to answer it
    assert lab.job(other)["JobState"] == "RUNNING"
    line.run("adopt", other, "--stop", "--yes")
    eventually(lambda: lab.job(other)["JobState"] == "CANCELLED", what="the array cancelled")
    line.run("adopt", "999999", exits=3)


def test_one_task_of_an_array_is_cancelled_without_the_others(cluster: Cluster) -> None:
    """Slurm gives the last one the number of the whole array."""
    line, lab = cluster.line, cluster.lab
    outputs = f"--output={line.folder}/%a"
    array = lab.submit("sleep 600", "--array=0-1", "--gres=gpu:8", outputs)
    eventually(lambda: lab.job(f"{array}_0")["JobState"] == "RUNNING", what="the first runs")
    assert line.json("adopt", f"{array}_1")["output"] == f"{line.folder}/1"
    line.run("adopt", f"{array}_1", "--stop", "--yes")
    eventually(lambda: lab.job(f"{array}_1")["JobState"] == "CANCELLED", what="cancelled")
    more = lab.submit("sleep 600", "--array=0-2%1", "--gres=gpu:8")
    eventually(lambda: f"{more}_[0-2%1]" in line.run("adopt").stdout, what="it waits")
    assert line.json("adopt", f"{more}_[0-2%1]")["output"]
    line.run("adopt", f"{more}_[0-2%1]", "--stop", "--yes")
    eventually(lambda: lab.job(more)["JobState"] == "CANCELLED", what="cancelled")
    assert lab.job(f"{array}_0")["JobState"] == "RUNNING"


async def test_they_stand_in_the_run_table(cluster: Cluster) -> None:
    """Followed like any run; `s` asks, and then cancels; what else a key may do is refused."""
    lab, state = cluster.lab, cluster.line.state.create()
    output = cluster.line.folder / "out"
    mine = lab.submit("echo first; sleep 600", "--job-name=by-hand", f"--output={output}")
    array = lab.submit("sleep 600", "--array=0-3", "--gres=gpu:8", "--job-name=\x1b[31modd")
    eventually(lambda: lab.job(mine)["JobState"] == "RUNNING", what="the job runs")
    refresh(state, every_s=0.0)
    app = PanelApp(state)
    async with app.run_test(size=(120, 30)) as pilot:
        pane, key = app.cockpit.query_one(RunPane), f"slurm/{mine}"
        await until(pilot, lambda: key in pane.keys)
        pane.select(key)
        log = app.cockpit.query_one(LogArea).log_pane
        await until(pilot, lambda: "first" in str(log.reader.document.tail(5)))
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StopScreen) and app.screen.is_mounted)
        assert lab.job(mine)["JobState"] == "RUNNING"
        await pilot.press("y")
        await until(pilot, lambda: key not in pane.keys)
        eventually(lambda: lab.job(mine)["JobState"] == "CANCELLED", what="cancelled")
        hosts = app.cockpit.remote.hosts
        assert hosts is not None
        place = hosts.links.hosts["slurm"].place
        done: list[Outcome] = []
        place.act(StarRuns((array,), True), done.append)
        waits = next(row.run_id for row in hosts.rows().live if row.run_id.endswith("]"))
        place.act(StopRuns((waits,)), done.append)
        await until(pilot, lambda: len(done) == 2)
        assert [bool(outcome.problem) for outcome in done] == [True, False]
        await until(pilot, lambda: waits not in {row.run_id for row in hosts.rows().live})
    assert not list(state.slurm.glob("foreign/*/*"))


def test_a_job_of_ours_that_was_renamed_stays_ours(cluster: Cluster) -> None:
    """By hand here; a cluster's own rules may do it too."""
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", "sleep", "600")
    job, state = json.loads(run.job.read_text())["id"], cluster.line.state
    cluster.lab.call("scontrol", "update", f"jobid={job}", "jobname=renamed")
    table = refresh(state, every_s=0.0)
    assert job in {row.number for row in table.jobs}
    assert job not in {row.number for row in foreign_jobs(state, table)}
    assert not is_over(run) and is_in_queue(job, run.id)
    cluster.lab.call("scancel", job)
    eventually(lambda: end_of_job(job, run.id)[0] is JobEnd.CANCELLED, what="its end")


def test_a_name_with_a_line_break_is_one_job(cluster: Cluster) -> None:
    """And hides none of those beside it."""
    names = ("before", "a\nb\x1fc", "after")
    jobs = [cluster.lab.submit("true", "--hold", f"--job-name={name}") for name in names]
    table = refresh(cluster.line.state.create(), every_s=0.0)
    shown = {row.number: row.name for row in table.jobs}
    assert [shown[job] for job in jobs] == [*names]
    assert not table.unread
