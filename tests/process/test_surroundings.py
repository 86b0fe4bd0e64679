"""Where a run lives: odd paths, folders with our own names, the user's presets, secrets, a
terminal that goes.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from runners.state.layout import RunDirectory, StateDirectory
from tests.command_text import READ_BY_EVERYONE, did_you_mean
from tests.mistakes import MISTAKES
from tests.process.conftest import COMMAND, SAFE_PATH, STUBBORN, CommandLine, leader
from tests.support import CEILING_S, eventually, files_below

ODD = "sp ace 'q' \"qq\" $HOME `id` ünï→ *[x]? #;&"


def test_paths_of_any_name(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, place = tmp_path / ODD, tmp_path / f"state {ODD}"
    (folder / "presets").mkdir(parents=True)
    script = (
        "import os, sys\nprint(os.getcwd()); print(sys.argv[1:]); open(sys.argv[1], "
        "'w').write('weights')\n"
    )
    (folder / f"train {ODD}.py").write_text(script)
    (folder / "presets" / "odd.yaml").write_text(
        json.dumps(
            {
                "launcher": "python",
                "interpreter": "${python}",
                "script": f"train {ODD.replace('${', '$${')}.py",
                "working_directory": "..",
                "arguments": ["${run_dir}/checkpoint.pt", ODD],
                "checkpoints": "${run_dir}/*.pt",
                "gpus": 0,
            }
        )
    )
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(place))
    cli.state, cli.folder = StateDirectory(), folder
    (folder.parent / "here").mkdir()
    run = cli.launch("odd")
    found = cli.ended(run)
    output = run.output.read_text()
    assert found["state"] == "done", output
    assert output.splitlines()[0] == str(folder)
    assert ODD in eval(output.splitlines()[1])
    assert found["checkpoint"]["path"] == str(run.path / "checkpoint.pt")
    assert str(run.path).startswith(str(place))
    assert cli.run("logs", "odd").stdout == output


@pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="without -P, `python -m` takes the folder first; the installed script does not",
)
def test_a_folder_with_packages_of_our_names_disturbs_nobody(cli: CommandLine) -> None:
    for package in ("tui", "runners", "trainers", "presets"):
        (cli.folder / package).mkdir()
        (cli.folder / package / "__init__.py").write_text(f"WHOSE = 'theirs: {package}'\n")
    for module in ("msgspec", "yaml", "signal", "select"):
        (cli.folder / f"{module}.py").write_text("raise SystemExit('theirs was imported by us')\n")
    code = "import tui, runners, trainers\nprint(tui.WHOSE, runners.WHOSE, trainers.WHOSE)\n"
    (cli.folder / "fit.py").write_text(code)
    (cli.folder / "mine").mkdir()
    (cli.folder / "mine" / "x.yaml").write_text(
        "launcher: python\ninterpreter: ${python}\nscript: fit.py\nworking_directory: ..\ngpus: 0\n"
    )
    for words in (["./mine/x.yaml"], ["--gpus", "0", "--", sys.executable, "fit.py"]):
        run = cli.launch(*words)
        found = cli.ended(run)
        assert (found["state"], run.output.read_text()) == (
            "done",
            "theirs: tui theirs: runners theirs: trainers\n",
        )
    assert "gaussian-validate" in cli.run("presets").stdout
    run = cli.command("sleep", "300")
    cli.kill_supervisor(run)
    cli.run("list")
    cli.run("stop", run.id, "--force", "--wait")
    assert cli.status(run)["state"] == "stopped"


def test_our_own_trainers_run_from_a_folder_with_trainers_of_its_own(cli: CommandLine) -> None:
    pytest.importorskip("torch")
    (cli.folder / "trainers").mkdir()
    (cli.folder / "trainers" / "__init__.py").write_text("raise SystemExit('theirs')\n")
    run = cli.launch(
        "gaussian-validate", "--gpus", "0", "--no-verify", "--set", "data_dir=/no/such/folder"
    )
    cli.ended(run)
    assert "theirs" not in run.output.read_text()
    assert json.loads(run.plan.read_text())["argv"][1].endswith("trainers/gaussian/train.py")


def test_presets_of_the_folder_and_of_the_user(cli: CommandLine, tmp_path: Path) -> None:
    user = tmp_path / "config" / "fresnel-tui" / "presets"
    for folder in (cli.folder / "presets", user):
        folder.mkdir(parents=True)
    text = "launcher: command\ncommand: echo {}\ngpus: 0\n"
    (user / "a.yaml").write_text(text.format("user"))
    (user / "b.yaml").write_text(text.format("user"))
    (cli.folder / "presets" / "a.yaml").write_text(text.format("here"))
    for name, expected in (("a", "here\n"), ("b", "user\n")):
        assert cli.run("launch", name, "--follow").stdout.startswith(expected)
    listed = {entry["name"]: entry["path"] for entry in cli.json("presets")}
    assert listed["a"].startswith(str(cli.folder)) and listed["b"].startswith(str(user))
    assert cli.json("status", "a")["preset"] == "a"


def test_every_mistake_in_a_preset_is_one_error_exit_code_2_and_nothing_started(
    cli: CommandLine,
) -> None:
    (cli.folder / "presets").mkdir()
    names = []
    for number, mistake in enumerate(MISTAKES.values()):
        names.append(f"wrong{number}")
        (cli.folder / "presets" / f"wrong{number}.yaml").write_text(mistake.text)
    # One Python for all of them, through the same door as the command: sixty starts of it would
    # test only Python.
    code = (
        "import contextlib, io, json, sys\nfrom tui.cli import run_command\ntold = {}\n"
        "for name in sys.argv[1:]:\n"
        "    said, shown = io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):\n"
        "        exit_code = run_command(['launch', name])\n"
        "    told[name] = [exit_code, said.getvalue(), shown.getvalue()]\n"
        "print(json.dumps(told))\n"
    )
    script = cli.folder / "all.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, *SAFE_PATH, str(script), *names],
        env=cli.environment({}),
        cwd=cli.folder,
        capture_output=True,
        check=True,
    )
    for name, (exit_code, said, shown) in json.loads(done.stdout).items():
        assert (exit_code, shown) == (2, ""), (name, said)
        assert said.startswith("fresnel-tui: ") and said.count("fresnel-tui:") == 1, said
        assert f"{name}.yaml" in said
    assert not list(cli.state.runs.glob("*"))
    real = cli.run("launch", names[0], exits=2)
    assert did_you_mean("environment") in real.stderr and real.stdout == ""
    assert not list(cli.state.runs.glob("*"))


def test_secrets_reach_the_program_and_no_file_and_no_screen(cli: CommandLine) -> None:
    (cli.folder / "presets").mkdir()
    (cli.folder / "presets" / "s.yaml").write_text(
        "launcher: command\ncommand: [sh, -c, 'echo \"$API_KEY$HF_TOKEN$AUTH\" | sha256sum']\n"
        "environment: {API_KEY: s3cret-1, AUTH: 'x${HF_TOKEN}'}\ngpus: 0\n"
    )
    shown = cli.run("plan", "s", HF_TOKEN="s3cret-2")
    assert "s3cret" not in shown.stdout + shown.stderr and "API_KEY=********" in shown.stdout
    run = cli.launch("s", HF_TOKEN="s3cret-2")
    assert cli.ended(run)["state"] == "done"
    assert (
        run.output.read_text().split()[0]
        == hashlib.sha256(b"s3cret-1s3cret-2xs3cret-2\n").hexdigest()
    )
    for path, content in files_below(cli.state.root).items():
        assert b"s3cret" not in content, path
    refused = cli.run(
        "launch", "s", "--set", "arguments=['${HF_TOKEN}']", exits=2, HF_TOKEN="s3cret-2"
    )
    assert "${HF_TOKEN}" in refused.stderr and READ_BY_EVERYONE in refused.stderr
    assert "s3cret" not in refused.stderr


# ── terminals ─────────────────────────────────────────────────────────────────────────────────────


def test_a_preset_may_ask_for_a_terminal(cli: CommandLine) -> None:
    script = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo yes; exit 9"
    run = cli.command("sh", "-c", script, options=["--set", "tty=true"])
    found = cli.ended(run)
    text = run.output.read_bytes()
    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert re.fullmatch(rb"/dev/pts/\d+\n40 120\nyes\n", text), text


def test_a_terminal_changes_no_byte_of_many(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "seq 100000", options=["--set", "tty=true"])
    cli.ended(run)
    assert run.output.read_text() == "".join(f"{i}\n" for i in range(1, 100001))


def test_a_terminal_outlives_the_supervisor_and_can_be_stopped(cli: CommandLine) -> None:
    gate = cli.folder / "gate"
    os.mkfifo(gate)
    script = (
        "trap 'echo told; exit 0' INT; "
        f"echo ready; cat '{gate}'; test -t 1 && echo still; while :; do sleep 0.05; done"
    )
    run = cli.command("sh", "-c", script, options=["--set", "tty=true"], ready="ready")
    cli.kill_supervisor(run)
    gate.write_text("go\n")
    eventually(lambda: "still" in run.output.read_text())
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 0)
    assert run.output.read_text() == "ready\ngo\nstill\ntold\n"


@pytest.mark.parametrize("words", [[], ["--follow"]], ids=["launch", "follow"])
def test_a_terminal_that_is_closed_takes_no_run_with_it(cli: CommandLine, words: list[str]) -> None:
    """No nohup, no tmux: the shell's terminal goes, the whole session gets SIGHUP, the run does
    not notice.
    """
    line = " ".join(
        [*COMMAND, "launch", *words, "--gpus", "0", "--", sys.executable, "-S", "child.py"]
    )
    (cli.folder / "child.py").write_text(STUBBORN)
    shell = pexpect.spawn(
        "bash", ["--norc", "-i"], cwd=str(cli.folder), env=cli.environment({}), timeout=CEILING_S
    )
    shell.sendline(line)
    run = eventually(lambda: _only_run(cli))
    eventually(lambda: run.output.exists() and b"ready" in run.output.read_bytes())
    if not words:
        shell.expect(re.escape(run.id))
    program = leader(run)
    shell.close(force=True)
    assert not shell.isalive()
    assert os.getsid(program) != shell.pid
    assert cli.status(run)["state"] == "running" and leader(run) == program
    assert Path(f"/proc/{program}").exists()
    cli.run("stop", run.id, "--force", "--wait")
    assert cli.status(run)["state"] == "stopped"


def _only_run(cli: CommandLine) -> RunDirectory | None:
    found = sorted(cli.state.runs.glob("2*")) if cli.state.runs.is_dir() else []
    return cli.state.run(found[0].name) if found else None


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ("launcher: command\ncommand: 'true'\nprice: amd-cloud-mi300", "x.yaml:3: price: "),
        (
            "launcher: command\ncommand: 'true'\nworking_directory: nope",
            "x.yaml:3: working_directory: ",
        ),
        ("launcher: python\nscript: nope.py", "x.yaml:2: script: "),
        (
            "launcher: command\ncommand: 'true'\nenvironment: {A: '${NOT_SET}'}",
            "x.yaml:3: environment.A: ",
        ),
    ],
    ids=["price", "working directory", "script", "unset variable"],
)
def test_what_is_wrong_only_on_this_machine_names_file_line_and_key_too(
    cli: CommandLine, keys: str, place: str
) -> None:
    (cli.folder / "x.yaml").write_text(f"{keys}\n")
    assert place in cli.run("plan", "./x.yaml", exits=2).stderr


def test_a_working_directory_that_is_not_utf8_is_refused_and_leaves_nothing(
    cli: CommandLine,
) -> None:
    odd = Path(os.fsdecode(os.fsencode(cli.folder) + b"/\xff"))
    odd.mkdir()
    assert "not UTF-8" in cli.run("launch", "--gpus", "0", "--", "true", exits=2, folder=odd).stderr
    assert not cli.state.runs.is_dir() or not list(cli.state.runs.iterdir())


def test_a_program_may_open_as_many_files_as_this_user_may(cli: CommandLine) -> None:
    script = "ulimit -n; ulimit -Hn; echo $TORCHELASTIC_ERROR_FILE"
    limits = f"ulimit -Sn 256; exec {' '.join(COMMAND)} launch --gpus 0 -- sh -c '{script}'"
    done = subprocess.run(
        ["sh", "-c", limits],
        cwd=cli.folder,
        env=cli.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    run = cli.state.run(done.stdout.strip())
    cli.ended(run)
    soft, hard, errors = run.output.read_text().split()
    most = 1 << 20 if hard == "unlimited" else min(int(hard), 1 << 20)
    assert int(soft) == most and errors == str(run.path / "error.json")
