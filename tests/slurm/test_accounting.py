"""A cluster with accounting: what it says of accounts and of jobs that the controller forgot."""

import json

import pytest

from runners.model.endings import JobEnd
from runners.slurm.accounts import read_budgets
from runners.slurm.job_end import end_of_job, exit_of_job
from runners.state.layout import settings_file
from tests.slurm.cluster import Cluster
from tests.support import eventually


def test_what_one_may_use_is_asked_and_proposed(accounted: Cluster) -> None:
    """Partition and account for the settings; of an account with a limit what is used and left."""
    line, lab = accounted.line, accounted.lab
    limits = "GrpTRESMins=gres/gpu=600,cpu=-1"
    lab.call("sacctmgr", "--immediate", "modify", "account", "lab", "set", limits)
    shown = line.json("gpus", "--slurm")
    assert (shown["proposed"], shown["is_set_up"]) == (
        "slurm: {partition: gpu, account: lab}",
        False,
    )
    (budget,) = shown["accounts"]
    assert (budget["account"], budget["resource"], budget["limit_h"]) == ("lab", "gres/gpu", 10.0)
    run = line.launch(
        "--slurm", "--gpus", "2", "--time", "30m", "--", "sh", "-c", "echo on; sleep 600"
    )
    eventually(lambda: run.output.exists() and "on" in run.output.read_text(), what="the run")

    def reserved() -> float:
        return float(line.json("gpus", "--slurm")["accounts"][0]["reserved_h"])

    eventually(lambda: 0.5 < reserved() <= 1.0, what="two GPUs for half an hour reserved")
    (told,) = line.json("cost")["accounts"]
    assert (told["account"], told["resource"], told["limit_h"]) == ("lab", "gres/gpu", 10.0)
    assert f"{told['left_h']:,.1f}" in line.run("cost").stdout
    kept = line.state.budgets.read_bytes()
    lab.call("sacctmgr", "--immediate", "modify", "account", "lab", "set", "GrpTRESMins=cpu=60")
    assert line.json("cost")["accounts"] == [told], "Slurm is not asked again so soon"
    assert line.state.budgets.read_bytes() == kept
    line.run("stop", run.id, "--wait")


def test_accounting_knows_a_job_that_the_controller_forgot(accounted: Cluster) -> None:
    """Who cancelled it, too: it is asked first."""
    job = accounted.lab.submit("sleep 600", "--job-name=by-hand")
    accounted.lab.call("scancel", job)
    told = JobEnd.CANCELLED, "root"  # the controller does not say by whom
    eventually(lambda: end_of_job(job, "by-hand") == told, what="its end")
    assert end_of_job(job, "another")[0] is None
    failed = accounted.lab.submit("exit 66", "--job-name=by-hand")
    told_of = 66, accounted.lab.nodes[0]
    eventually(lambda: exit_of_job(failed, "by-hand") == told_of, what="its exit code")


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("", []),
        ("sshare: error\nx|y\n", []),
        # As 22.05 prints it, an account with limits, and its user, who has none of his own.
        (
            "lab||cpu=1000,gres/gpu=600|cpu=60,mem=99,gres/gpu=120|cpu=0,gres/gpu=60\n"
            " lab|me||cpu=60,gres/gpu=120|cpu=0,gres/gpu=60\n",
            [("lab", "cpu", 1000 / 60, 1.0, 0.0), ("lab", "gres/gpu", 10.0, 2.0, 1.0)],
        ),
        ("lab||gres/gpu=600||\n", [("lab", "gres/gpu", 10.0, 0.0, 0.0)]),
    ],
)
def test_limits_as_sshare_prints_them(output: str, found: list[tuple[object, ...]]) -> None:
    """What cannot be understood is left out."""
    told = read_budgets(output)
    assert [(b.account, b.resource, b.limit_h, b.used_h, b.reserved_h) for b in told] == found
    assert json.dumps([budget.left_h for budget in told])


@pytest.mark.parametrize(
    ("price", "per_hour"),
    [("{per_gpu_hour: 3600}", 2 * 3600), ("{per_billing_hour: 360}", 21 * 360)],
)
def test_a_job_is_charged_for_what_it_was_given(
    accounted: Cluster, price: str, per_hour: int
) -> None:
    """As accounting has it (AllocTRES x elapsed), in no session; while it waits, nothing."""
    line, lab = accounted.line, accounted.lab
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(f"slurm: {{partition: billed, price: {price}}}\n")
    blocker = lab.submit("sleep 600", "--gres=gpu:8")
    run = line.launch(
        "--slurm", "--gpus", "2", "--time", "5m", "--", "sh", "-c", "echo on; sleep 3"
    )
    assert not line.json("status", run.id)["cost_usd"]
    lab.call("scancel", blocker)
    assert line.ended(run)["state"] == "done"
    job = line.json("status", run.id)["job"]
    ask = ("sacct", "-nPX", "--format=ElapsedRaw,AllocTRES,State", "-j", job)
    eventually(lambda: "COMPLETED" in lab.call(*ask), what="accounted")
    elapsed, given, _ = lab.call(*ask).split("|")
    assert {"billing=21", "gres/gpu=2"} <= set(given.split(","))
    spent = line.json("cost")
    (row,) = spent["runs"]
    # Slurm counts whole seconds, and what it does itself before the script and after it.
    assert 3 * per_hour <= 3600 * row["cost_usd"] <= per_hour * (int(elapsed) + 1), (row, elapsed)
