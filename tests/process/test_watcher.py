"""How live runs do, judged without any panel: told once, shown everywhere, acted on when asked."""

import json
import sys
from typing import Any

from runners.diagnosis.stacks import newest_stacks
from runners.model.health import Condition
from runners.state.layout import RunDirectory
from tests.command_text import LAST_OUTPUT
from tests.process.conftest import CommandLine, events
from tests.support import SLEEPS_IN, eventually

# Says one step, is silent until the file `go` is there, then says steps for ever.
PAUSES = """
import os, time
print("step 1/90000 loss 0.5", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
step = 1
while True:
    step += 1
    print(f"step {step}/90000 loss {LOSS}", flush=True)
    time.sleep(0.1)
"""


# As Lightning does: nothing of its metrics and checkpoints is printed.
SILENT = """
import os, time, zipfile
os.makedirs("lightning_logs/version_0")
os.makedirs("saved")
with open("lightning_logs/version_0/metrics.csv", "w") as table:
    table.write("epoch,step,loss\\n0,49,0.5\\n0,99,0.25\\n")
with zipfile.ZipFile("saved/last.ckpt", "w") as file:
    file.writestr("data.pkl", "")
while True: time.sleep(0.1)
"""


def launch(cli: CommandLine, rule: str, loss: str = "0.5", program: str = PAUSES) -> RunDirectory:
    (cli.folder / "train.py").write_text(program.replace("{LOSS}", loss))
    (cli.folder / "pause.yaml").write_text(
        # Nothing of its start but the interpreter's own: on a busy machine that alone is silence.
        f"launcher: command\ncommand: [{json.dumps(sys.executable)}, -I, -S, train.py]\n"
        f"gpus: 0\non_stall: {rule}\nstop: {{ladder: [SIGTERM 5s]}}\n"
    )
    return cli.launch("./pause.yaml")


def health(cli: CommandLine, run: RunDirectory, condition: str) -> dict[str, Any]:
    """The run's health once it is `condition`, as `status --json` has it."""

    def look() -> dict[str, Any] | None:
        found = cli.status(run)["health"]
        return found if found is not None and found["condition"] == condition else None

    return eventually(look, what=condition)


def stalls(run: RunDirectory) -> list[dict[str, Any]]:
    """The alerts that it does not go on."""
    return [one for one in events(run, "alert") if one["condition"] == Condition.STALL]


def test_a_silent_run_is_told_once_with_evidence_and_goes_on(cli: CommandLine) -> None:
    run = launch(cli, "{after: 5s}")
    found = health(cli, run, "possible stall")
    assert found["message"].startswith("silent for ")
    assert any(SLEEPS_IN in line for line in found["evidence"])
    # `status` judges by itself until the watcher has looked.
    (alert,) = eventually(lambda: stalls(run), what="the watcher's alert")
    assert alert["text"].startswith("possible stall: silent for ")
    text = cli.run("status", run.id).stdout
    assert f"⚠ {Condition.STALL}: silent for" in text and LAST_OUTPUT in text
    assert f"{Condition.STALL}: silent for" in cli.run("list").stdout
    dump = newest_stacks(run.path)
    assert dump is not None and dump.why == "possible stall"
    for _ in range(2):
        before = run.health.stat().st_mtime_ns
        eventually(lambda seen=before: run.health.stat().st_mtime_ns > seen, what="another look")
    assert stalls(run) == [alert], "silent as before, and reported once"
    (cli.folder / "go").touch()
    assert health(cli, run, "progressing")["message"] == "progressing"
    assert Condition.STALL not in cli.run("list").stdout, "a row says what holds now"
    assert stalls(run) == [alert]
    assert cli.status(run)["state"] == "running"
    eta = eventually(lambda: json.loads(run.health.read_text())["eta_s"], what="when it is done")
    assert eta > 0, "the supervisor's forecast of a full disk looks no further"


def test_what_a_silent_program_writes_is_found_where_it_works_alone(cli: CommandLine) -> None:
    run = launch(cli, "{after: 2s}", program=SILENT)
    found = eventually(lambda: cli.status(run)["checkpoint"], what="its checkpoint")
    assert found["path"] == str(cli.folder / "saved" / "last.ckpt")
    (loss,) = cli.json("metrics", run.id)["metrics"]
    assert (loss["name"], loss["values"]) == ("loss", [0.5, 0.25])


def test_a_preset_may_have_a_stalled_run_stopped(cli: CommandLine) -> None:
    run = launch(cli, "{after: 2s, stop: true}")
    found = cli.ended(run)
    assert found["state"] == "stopped" and found["reason"].startswith("on_stall: silent for ")
    assert newest_stacks(run.path) is not None


def test_a_loss_that_is_no_number_is_told(cli: CommandLine) -> None:
    (cli.folder / "go").touch()
    run = launch(cli, "{after: 8s}", loss="nan")
    health(cli, run, Condition.NOT_FINITE)
    # `status` judges by itself until the watcher has looked.
    alerts = eventually(lambda: events(run, "alert"), what="the watcher's alert")
    assert [alert["condition"] for alert in alerts] == ["loss not finite"]


def test_the_key_is_checked(cli: CommandLine) -> None:
    (cli.folder / "bad.yaml").write_text("launcher: command\ncommand: x\non_stall: {after: 0}\n")
    problem = cli.run("launch", "./bad.yaml", exits=2).stderr
    assert "bad.yaml:3" in problem and "on_stall.after" in problem
