"""Launching, waiting, following, looking: what a script sees of a run."""

import json
import os
import re
import signal
import sys
from datetime import datetime
from pathlib import Path

import pytest

from runners.model.states import State
from runners.state.layout import RunDirectory
from tests.command_text import (
    GIVE_ONE,
    NO_FOLDER,
    NO_GPU_SETTING,
    WALL_TIME,
    at_most,
    parameters,
    was_secret,
)
from tests.process.conftest import COMMAND, STUBBORN, CommandLine, leader
from tests.screen_text import NO_RUNS, run_row
from tests.support import SLEEPS_IN, eventually, stats_below

RUN_KEYS = {
    "id", "preset", "state", "reason", "gpus", "created", "started", "ended", "exit_code",
    "cost_usd", "checkpoint",
    "metrics", "directory",
}  # fmt: skip
GPU_KEYS = {
    "index", "uuid", "name", "utilization", "memory_used", "memory_total", "temperature_c",
    "power_w", "run",
    "processes", "simulated",
}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "state", "code", "reason"),
    [
        ("exit 0", "done", 0, None),
        ("exit 3", "failed", 3, "exit code 3"),
        ("exit 127", "failed", 127, "exit code 127 (command not found)"),
        ("exit 200", "failed", 200, "exit code 200"),
        ("kill -TERM $$", "failed", 143, "killed by SIGTERM"),
        (
            "kill -KILL $$",
            "failed",
            137,
            "killed by SIGKILL (out of memory, or killed by somebody)",
        ),
        ("kill -SEGV $$", "failed", 139, "killed by SIGSEGV"),
    ],
)
def test_how_a_program_ends_is_how_the_run_ends(
    cli: CommandLine, script: str, state: str, code: int, reason: str | None
) -> None:
    run = cli.json(
        "launch", "--wait", "--gpus", "0", "--", "sh", "-c", script, exits=0 if code == 0 else 1
    )
    assert (run["state"], run["exit_code"], run["reason"]) == (state, code, reason)


def test_a_run_in_json_has_every_documented_field(cli: CommandLine) -> None:
    script = (
        "mkdir -p $FRESNEL_RUN_DIR/checkpoints; echo weights >$FRESNEL_RUN_DIR/checkpoints/a.pt; "
        """echo '{"time": 1, "type": "metrics", "step": 2, "values": {"loss": 0.5}}' """
        ">$FRESNEL_RUN_DIR/events.jsonl"
    )
    run = cli.command("sh", "-c", script, options=["--name", "ä b", "--price", "3600"])
    assert cli.run("wait", run.id).stdout == ""
    eventually((run.path / "final.json").exists, what="its last values kept")
    found = cli.status(run)
    assert set(found) >= RUN_KEYS
    assert found["id"] == run.id and found["name"] == "ä b" and found["preset"] == "command"
    assert (found["state"], found["reason"], found["exit_code"], found["gpus"]) == (
        "done",
        None,
        0,
        [],
    )
    created, started, ended = (
        datetime.fromisoformat(found[key]) for key in ("created", "started", "ended")
    )
    assert created <= started <= ended
    assert found["cost_usd"] is None, "at whatever price: no session is open"
    assert found["metrics"] == {"loss": 0.5}
    assert found["checkpoint"]["path"] == str(run.path / "checkpoints" / "a.pt")
    assert found["checkpoint"]["bytes"] == len("weights\n")
    assert found["directory"] == str(run.path)
    assert cli.json("list") == [cli.json("status", "ä b")] == [found]


def test_what_is_not_known_is_null(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    found = cli.status(run)
    assert found["state"] == "running"
    for key in ("ended", "exit_code", "cost_usd", "checkpoint"):
        assert found[key] is None
    assert found["metrics"] == {}


def test_every_json_output_is_one_document_and_words_go_to_stderr(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    run = cli.json("launch", "--gpu-ids", "1", "--", "sleep", "300")
    gpus = cli.json("gpus")
    assert [gpu["run"] for gpu in gpus] == [None, run["id"]]
    assert all(set(gpu) >= GPU_KEYS and gpu["simulated"] is True for gpu in gpus)
    plan = cli.json("plan", "example", "--gpus", "1")
    assert plan["argv"] and plan["gpus"][0]["index"] == 0
    cost = cli.json("cost")
    assert {"usd_per_hour", "session_usd", "runs"} <= set(cost)
    assert any(entry["name"] == "gaussian-validate" for entry in cli.json("presets"))
    assert cli.json("presets", "schema")["title"] == "fresnel-tui preset"
    assert cli.json("session", "start", "--rate", "16", "--since", "now")["usd_per_hour"] == 16.0
    assert cli.json("session", "end")["session_started"] is not None
    stopped = cli.json("stop", "last", "--force", "--wait")
    assert stopped["state"] == "stopped"
    assert cli.json("wait", "last", exits=1)["id"] == run["id"]


def test_a_session_s_machine_rate_is_shared_among_its_gpus(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    cli.run("session", "start", "--rate", "15.92", "--since", "now")
    run = cli.json("launch", "--gpus", "2", "--", "sleep", "300")
    assert run["usd_per_hour"] == pytest.approx(2 * 1.99) and run["price_basis"] == "session"


def test_gpus_that_the_shell_names_choose_none_and_the_plan_says_so(cli: CommandLine) -> None:
    def notes(shown: str, *words: str) -> list[str]:
        shell = {"CUDA_VISIBLE_DEVICES": shown, "FRESNEL_GPUS": "sim:4xH100"}
        shell["NVIDIA_VISIBLE_DEVICES"] = "GPU-a7f3"  # as a container is given them
        shown = cli.run("plan", "--json", *words, "--", "true", **shell).stdout
        found: list[str] = json.loads(shown)["notes"]
        return found

    (note,) = notes("2,3", "--gpus", "1")
    assert "--gpu-ids 2,3" in note
    for shown, words in (("0", ["--gpus", "1"]), ("3", ["--gpu-ids", "1"]), ("3", ["--gpus", "0"])):
        assert notes(shown, *words) == []


def test_a_preset_s_line_of_a_shell_may_activate_an_environment(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "activate").write_text("NAME=mine\n")
    preset = tmp_path / "activates.yaml"
    preset.write_text(
        f"launcher: command\nshell: true\ngpus: 0\n"
        f"command: 'source {tmp_path}/activate && [[ $NAME == m* ]] && echo $NAME'\n"
    )
    run = cli.launch(str(preset), "--wait")
    assert cli.run("logs", run.id).stdout == "mine\n"


def test_launch_prints_the_id_alone(cli: CommandLine) -> None:
    done = cli.run("launch", "--gpus", "0", "--", "true")
    assert done.stdout == f"{cli.json('status', 'last')['id']}\n"
    assert done.stderr == ""


def test_lists_and_tables_stay_off_stderr_and_empty_lists_off_stdout(cli: CommandLine) -> None:
    empty = cli.run("list")
    assert empty.stdout == "" and NO_RUNS in empty.stderr
    assert cli.json("list") == []
    cli.run("launch", "--gpus", "0", "--wait", "--", "true")
    full = cli.run("list")
    assert run_row(State.DONE) in full.stdout and full.stderr == ""


def test_follow_shows_the_output_then_a_summary(cli: CommandLine) -> None:
    done = cli.run(
        "launch",
        "--gpus",
        "0",
        "--follow",
        "--",
        "sh",
        "-c",
        "echo one; echo two >&2; exit 4",
        exits=1,
    )
    assert done.stdout.startswith("one\ntwo\n")
    assert f"{run_row(State.FAILED)}, exit code 4" in done.stdout and WALL_TIME in done.stdout
    assert "run 20" in done.stderr


def test_followed_with_json_only_the_document_is_on_stdout(cli: CommandLine) -> None:
    words = ("launch", "--gpus", "0", "--follow", "--json", "--", "sh", "-c", "echo one; exit 4")
    done = cli.run(*words, exits=1)
    assert json.loads(done.stdout)["exit_code"] == 4
    assert "\none\n" in done.stderr


def test_wait_gives_the_run_s_ending(cli: CommandLine) -> None:
    good, bad = cli.command("true"), cli.command("false")
    assert State.DONE in cli.run("wait", good.id).stderr
    assert f"{State.FAILED}: exit code 1" in cli.run("wait", bad.id, exits=1).stderr


@pytest.mark.parametrize("words", [["--wait"], ["--follow"]])
def test_ctrl_c_leaves_the_run_alone(cli: CommandLine, words: list[str]) -> None:
    child = cli.begin("launch", *words, "--gpus", "0", "--", sys.executable, "-c", STUBBORN)
    run = eventually(lambda: next(iter(_runs(cli)), None))
    eventually(lambda: run.output.exists() and b"ready" in run.output.read_bytes())
    eventually(lambda: _waits(child.pid), what="a command that waits")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    assert child.returncode == 130 and b"the run continues" in said
    assert cli.status(run)["state"] == "running"


def _runs(cli: CommandLine) -> list[RunDirectory]:
    return (
        [cli.state.run(path.name) for path in sorted(cli.state.runs.glob("2*"))]
        if cli.state.runs.is_dir()
        else []
    )


def test_ctrl_c_ends_waiting_and_reading_with_130(cli: CommandLine) -> None:
    run = cli.command(sys.executable, "-c", STUBBORN, ready="ready")
    for words in (["wait", run.id], ["wait", run.id, "--json"], ["logs", "-f", run.id]):
        child = cli.begin(*words)
        if words[0] == "logs":
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        else:
            eventually(lambda pid=child.pid: _waits(pid), what="a command that waits")
        child.send_signal(signal.SIGINT)
        printed, _ = child.communicate()
        assert child.returncode == 130
        if "--json" in words:
            assert json.loads(printed)["error"]["code"] == "interrupted"


def test_ctrl_c_leaves_a_program_the_run_that_it_launched(cli: CommandLine) -> None:
    command = (sys.executable, "-c", STUBBORN)
    child = cli.begin("launch", "--wait", "--json", "--gpus", "0", "--", *command)
    run = eventually(lambda: next(iter(_runs(cli)), None))
    eventually(lambda: run.output.exists() and b"ready" in run.output.read_bytes())
    eventually(lambda: _waits(child.pid), what="a command that waits")
    child.send_signal(signal.SIGINT)
    printed, _ = child.communicate()
    found = json.loads(printed)
    assert (child.returncode, found["id"], found["state"]) == (130, run.id, "running")


def _waits(pid: int) -> bool:
    """Whether a command looks only now and then: before that it has begun to heed Ctrl+C."""
    return SLEEPS_IN in Path(f"/proc/{pid}/wchan").read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["launch"], 2, "no preset and no command given"),
        (["launch", "nope"], 3, "no preset `nope`"),
        (["launch", "--"], 2, "no command after --"),
        (["launch", "example", "--", "true"], 2, "give one of them"),
        (["launch", "--gpus", "two", "--", "true"], 2, "--gpus: expected a number or all"),
        (["launch", "--gpu-ids", "x", "--", "true"], 2, "--gpu-ids: expected GPU indices"),
        (["launch", "--gpus", "1", "--gpu-ids", "1", "--", "true"], 2, "not allowed with"),
        (["launch", "--price", "cheap", "--", "true"], 2, "no price `cheap`"),
        (["launch", "--gpus", "1", "--", "true"], 4, "1 GPU asked for, but"),
        (["launch", "--", "fresnel-no-such-program"], 2, "no program `fresnel-no-such-program`"),
        (["launch", "~no-such-user/p.yaml"], 3, "no preset `~no-such-user/p.yaml`"),
        (["launch", "--", "~no-such-user/train"], 2, "no program `~no-such-user/train`"),
        (["checkpoint", "inspect", "~no-such-user/x.pt"], 2, "nothing was written"),
        (["status", "nope"], 3, "no run `nope`"),
        (["status", ""], 2, "empty"),
        (["logs", "nope"], 3, "no run `nope`"),
        (["wait", "nope"], 3, "no run `nope`"),
        (["stop", "nope"], 3, "no run `nope`"),
        (["stop"], 2, "name the runs to stop, or --all"),
        (["stop", "x", "--all"], 2, "name the runs to stop, or --all"),
        (["list", "--", "true"], 2, "goes with launch, plan, verify"),
        (["dance"], 2, "dance"),
        (["session", "start"], 2, "needs --price NAME"),
        (["session", "end"], 3, "no session is open"),
        ([], 2, "the panel needs a terminal"),
    ],
)
def test_a_mistake_has_its_exit_code_and_starts_nothing(
    cli: CommandLine, words: list[str], code: int, said: str
) -> None:
    done = cli.run(*words, exits=code)
    assert said in done.stderr and done.stdout == ""
    assert not list(cli.state.runs.glob("*")) if cli.state.runs.exists() else True


def test_an_environment_that_makes_no_sense_is_wrong_input(cli: CommandLine) -> None:
    done = cli.run("launch", "--gpus", "1", "--", "true", exits=2, FRESNEL_GPUS="sim:manyxH100")
    assert f"FRESNEL_GPUS='sim:manyxH100' {NO_GPU_SETTING}" in done.stderr


def test_state_is_for_its_owner_alone(cli: CommandLine) -> None:
    os.umask(0o022)
    cli.run("launch", "--gpus", "0", "--wait", "--", "sh", "-c", "echo hi")
    cli.run("launch", "--gpus", "0", "--wait", "--set", "tty=true", "--", "sh", "-c", "echo hi")
    cli.run("gpus", FRESNEL_GPUS="sim:1xH100")
    cli.run("session", "start", "--rate", "1", "--since", "now")
    run = cli.command("sleep", "300")
    cli.run("stop", run.id, "--force", "--wait")
    found = stats_below(cli.state.root)
    assert len(found) > 25
    wrong = {str(path): oct(one.st_mode) for path, one in found.items() if one.st_mode & 0o077}
    assert not wrong


def test_the_output_appears_while_the_program_runs(cli: CommandLine) -> None:
    """A Python child is unbuffered by its environment, a C program by stdbuf, a pipe by neither."""
    python = cli.command(
        sys.executable, "-c", "import time; print('begun'); time.sleep(300)", ready="begun"
    )
    assert cli.status(python)["state"] == "running"


def test_a_c_program_s_output_appears_while_it_runs(cli: CommandLine) -> None:
    # `uniq` writes through C's stdio, and waits for the end of its input, a fifo that stays open.
    fifo = cli.folder / "fifo"
    os.mkfifo(fifo)
    run = cli.command("uniq", str(fifo))
    with fifo.open("w") as file:
        file.write("begun\nmore\n")
        file.flush()
        eventually(
            lambda: run.output.read_text().startswith("begun\n"),
            what="the first line while more may come",
        )
        assert cli.status(run)["state"] == "running"


def test_a_run_knows_its_own_directory_and_id(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", 'echo "$FRESNEL_RUN_ID $FRESNEL_RUN_DIR"; pwd')
    cli.ended(run)
    assert run.output.read_text() == f"{run.id} {run.path}\n{cli.folder}\n"


def test_a_run_has_no_input_and_no_terminal(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "wc -c; tty || true; sh -c 'exec 3</dev/tty' 2>&1 || echo no tty")
    cli.ended(run)
    text = run.output.read_text()
    assert text.startswith("0\n") and "not a tty" in text and "no tty" in text


def test_a_run_launched_inside_a_run_is_a_run_of_its_own(cli: CommandLine) -> None:
    inner = " ".join([*COMMAND, "launch", "--gpus", "0", "--", "sleep", "300"])
    outer = cli.command("sh", "-c", inner)
    assert cli.ended(outer)["state"] == "done"
    run = cli.state.run(outer.output.read_text().split()[-1])
    assert cli.status(run)["state"] == "running"
    environment = Path(f"/proc/{leader(run)}/environ").read_bytes().decode()
    assert f"FRESNEL_RUN_ID={run.id}" in environment and outer.id not in environment


def test_plan_prints_what_launch_runs_and_starts_nothing(cli: CommandLine) -> None:
    words = ["example", "--set", "shell=false", "--set", "command=echo ${run_dir} ${gpu_count}"]
    plan = cli.json("plan", *words)
    assert not cli.state.runs.exists() or not list(cli.state.runs.iterdir())
    launched = cli.launch(*words)
    cli.ended(launched)
    ran = json.loads(launched.plan.read_text())
    for key in ("environment", "working_directory", "processes"):
        assert ran[key] == json.loads(json.dumps(plan[key]).replace(plan["run"], launched.id))
    assert [word.replace(plan["run"], launched.id) for word in plan["argv"]] == ran["argv"]
    assert launched.output.read_text() == f"{launched.path} 0\n"


def test_a_working_directory_that_has_vanished_is_refused(cli: CommandLine) -> None:
    gone = cli.folder / "gone"
    gone.mkdir()
    preset = cli.folder / "x.yaml"
    preset.write_text(
        f"launcher: command\ncommand: sleep 300\ngpus: 0\nworking_directory: '{gone}'\n"
    )
    run = cli.launch(str(preset))
    eventually(lambda: cli.status(run)["state"] == "running")
    gone.rmdir()
    refused = cli.run("launch", str(preset), exits=2).stderr
    assert NO_FOLDER in refused and str(gone) in refused


def test_a_folder_of_a_user_who_is_not_known_is_a_folder_that_is_not_there(
    cli: CommandLine,
) -> None:
    preset = cli.folder / "x.yaml"
    preset.write_text(
        "launcher: command\ncommand: sleep 300\ngpus: 0\nworking_directory: ~no-such-user/x\n"
    )
    refused = cli.run("launch", str(preset), exits=2).stderr
    assert NO_FOLDER in refused and "~no-such-user/x" in refused
    text = "Epoch 1/1 loss=0.5\nSaving checkpoint to ~no-such-user/x.pt"
    run = cli.launch("--gpus", "0", "--wait", "--", "echo", text)
    assert "loss" in cli.run("metrics", run.id).stdout
    cli.run("report", run.id, "-o", "run.html")


def test_a_program_that_cannot_run_is_a_failed_run_with_its_own_words(cli: CommandLine) -> None:
    script = cli.folder / "script"
    script.write_text("#!/\n")
    script.chmod(0o755)
    run = cli.command("./script")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"] in (126, 127)) == ("failed", True)
    assert "script" in run.output.read_text()


def test_a_run_is_launched_again_as_it_was_with_what_is_changed_and_its_secrets(
    cli: CommandLine,
) -> None:
    preset = cli.folder / "again.yaml"
    preset.write_text(
        "launcher: command\nshell: true\ncommand: echo $API_KEY $0 $*\n"
        "parameters: {lr: 0.1, epochs: {value: 5, maximum: 9}}\n"
        "environment: {API_KEY: xyzzy}\ngpus: 0\n"
    )
    first = cli.launch(str(preset), "--set", "lr=0.2", "--name", "mine")
    assert (
        cli.ended(first)["state"] == "done"
        and first.output.read_text() == "xyzzy --lr 0.2 --epochs 5\n"
    )
    again = cli.launch("--again", first.id[:20], "--set", "epochs=9")
    assert cli.ended(again)["name"] == "mine"
    assert again.output.read_text() == "xyzzy --lr 0.2 --epochs 9\n"
    assert "xyzzy" not in again.spec.read_text() + again.plan.read_text()
    refused = [
        cli.run(*words, "--again", first.id, *more, exits=2).stderr
        for words, more in (
            (("launch",), ("--set", "epochs=10")),
            (("plan",), ("--set", "x=1")),
            (("launch", "again"), ()),
        )
    ]
    texts = at_most("9, got 10"), parameters("lr, epochs"), GIVE_ONE
    assert [text in error for text, error in zip(texts, refused, strict=True)] == [True] * 3
    preset.unlink()
    assert was_secret("API_KEY") in cli.run("launch", "--again", first.id, exits=2).stderr


def test_the_plan_and_the_details_say_what_happens_to_a_run_by_itself(cli: CommandLine) -> None:
    rules = ["restart.times=2", "limits.time=4h", "keep.last=5", "on_stall.after=10m"]
    words = ["--gpus", "0", *(word for rule in rules for word in ("--set", rule)), "--", "true"]
    planned = pairs_of(cli.run("plan", *words).stdout)
    run = cli.launch(*words)
    cli.ended(run)
    details = pairs_of(cli.run("status", run.id).stdout)
    names = ["limit", "stop", "restarts", "keeps", "if silent"]
    assert [details[name] for name in names] == [planned[name] for name in names]


def pairs_of(text: str) -> dict[str, str]:
    """A page of names and values, by name; the last of each."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines() if "  " in line)
