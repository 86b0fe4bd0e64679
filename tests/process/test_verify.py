"""`verify`: presets, groups and commands, on real interpreters, files and ports; and launches that
a preset wants checked.
"""

import errno
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.command_text import NOT_LAUNCHED, out_of_time
from tests.process.conftest import CommandLine

TOO_LONG = os.strerror(errno.ENAMETOOLONG).lower()
TORCH = """\
__version__ = "2.9.0"
class version: cuda, hip = CUDA, None
class cuda:
    get_arch_list = staticmethod(lambda: ["sm_90"])
    device_count = staticmethod(lambda: 0)
    init = staticmethod(lambda: None)
print("noise that a module prints")
"""
PRESET = """\
launcher: python
interpreter: {python}
script: train.py
working_directory: ${{working_directory}}
gpus: 0
parameters:
  data: {{value: images, type: str}}
  resume: {{value: null, type: str}}
resume: {{parameter: resume}}
checks:
  files:
    - {{path: "${{parameters.data}}/*.jpg", name: images, count: 3, size: 2-, pairs: ["f/{{stem}}.bin"]}}
  commands: [{{command: [sh, -c, "echo $GREETING; test -d f"], advice: make the folder f}}]
environment: {{GREETING: hello}}
{more}
"""


def write(cli: CommandLine, more: str = "") -> str:
    """A preset, its program and a stand-in of PyTorch; three images, each with its partner."""
    (cli.folder / "p.yaml").write_text(PRESET.format(python=sys.executable, more=more))
    (cli.folder / "train.py").write_text("import torch\nimport json\nprint('trained')\n")
    (cli.folder / "torch.py").write_text(TORCH.replace("CUDA", "None"))
    for place in ("images/f", "f"):
        (cli.folder / place).mkdir(parents=True, exist_ok=True)
    for name in "abc":
        (cli.folder / "images" / f"{name}.jpg").write_text("jpg")
        (cli.folder / "images" / "f" / f"{name}.bin").touch()
    return str(cli.folder / "p.yaml")


def verdicts(cli: CommandLine, *words: str, exits: int = 0) -> dict[str, tuple[str, str]]:
    found = cli.json("verify", *words, exits=exits)
    assert found["passed"] == (exits == 0)
    return {
        one["name"]: (one["verdict"], f"{one['message']} {one['advice']}")
        for one in found["runs"][0]["checks"]
    }


def test_a_preset_that_is_well_passes_and_one_mistake_after_the_other_fails(
    cli: CommandLine,
) -> None:
    preset = write(cli)
    found = verdicts(cli, preset)
    # The stand-in is its own module beside the script, so that it is asked but no import to try.
    assert found["files"] == (
        "PASS",
        f"images: 3 found, every partner is there ({cli.folder}/images/*.jpg) ",
    )
    assert found["command"][0] == "PASS" and "hello" in found["command"][1]
    assert found["interpreter"][0] == "PASS"
    (cli.folder / "images" / "c.jpg").unlink()
    (cli.folder / "images" / "a.jpg").write_text("x")
    (cli.folder / "images" / "f" / "b.bin").unlink()
    (cli.folder / "f").rmdir()
    text = cli.run("verify", preset, "--brief", exits=1)
    said = text.stdout
    assert "2 found, 3 expected" in said and "a.jpg 1" in said and "f/b.bin" in said
    assert "exit code 1 instead of 0" in said and "make the folder f" in said
    assert "PASS" not in said and text.stderr.startswith("4 failures")
    assert set(verdicts(cli, preset, "--only", "disk")) == {"plan", "disk"}


def test_the_checkpoint_and_the_script_are_looked_for(cli: CommandLine) -> None:
    preset = write(cli)
    found = verdicts(cli, preset, "--set", "resume=old.pt", "--only", "checkpoint", exits=1)
    assert found["checkpoint"] == (
        "FAIL",
        f"{cli.folder}/old.pt: no such file or folder resume from the one before; "
        "`fresnel-tui checkpoint inspect` says more",
    )
    (cli.folder / "old.pt").write_bytes(b"PK\x03\x04 cut short")
    found = verdicts(cli, preset, "--set", "resume=old.pt", "--only", "checkpoint", exits=1)
    assert "incomplete" in found["checkpoint"][1]
    # One value that no file can be called leaves the other checks as they are.
    long = f"resume=/{'x' * 300}/old.pt"
    found = verdicts(cli, preset, "--set", long, exits=1)
    assert found["checkpoint"][0] == "FAIL" and TOO_LONG in found["checkpoint"][1]
    assert found["interpreter"][0] == "PASS"
    (cli.folder / "train.py").unlink()
    assert verdicts(cli, preset, exits=1)["plan"][0] == "FAIL"
    cli.run("verify", "no-such-preset", exits=3)
    cli.run("verify", preset, "--set", "nothing=1", exits=2)


def test_a_command_s_port_interpreter_and_modules(cli: CommandLine) -> None:
    (cli.folder / "train.py").write_text("import surely_missing_module, os\n")
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["--gpus", "0", "--", sys.executable, "train.py", f"--master_port={port}"]
        found = verdicts(cli, *words, exits=1)
    assert found["port"][0] == "FAIL" and str(port) in found["port"][1]
    assert found["imports"][0] == "FAIL" and "surely_missing_module" in found["imports"][1]


def test_what_cannot_start_is_found_without_running_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    ran = cli.folder / "ran"
    (cli.folder / "train.py").write_text(
        f"import argparse\nopen({str(ran)!r}, 'w')\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr')\nparser.parse_args()\n"
    )
    (cli.folder / "pkg").mkdir()
    (cli.folder / "pkg/train.py").write_text(f"open({str(ran)!r}, 'w')\n")
    launcher = cli.folder / "torchrun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    python, gpus = sys.executable, ("--gpus", "2", "--")
    fails = {
        "script": (*gpus, python, "nothere.py"),
        "options": (*gpus, python, "train.py", "--learning-rate", "1"),
        "processes": (*gpus, "./torchrun", "--nproc-per-node=4", "train.py"),
        "module": (*gpus, python, "-m", "pkg.gone"),
    }
    for name, words in fails.items():
        assert verdicts(cli, *words, exits=1)[name][0] == "FAIL"
    passes = [(*gpus, python, "train.py", "--lr", "1"), (*gpus, python, "-m", "pkg.train")]
    for words in passes:
        assert not verdicts(cli, *words).keys() & fails.keys()
    assert not ran.exists()


def test_a_group_is_checked_run_by_run(cli: CommandLine) -> None:
    preset = Path(write(cli))
    group = cli.folder / "both.yaml"
    group.write_text(
        "runs:\n  - {preset: p.yaml, name: one}\n  - {preset: p.yaml, name: two, set: "
        "{data: gone}}\n"
    )
    assert preset.exists()
    found = cli.json("verify", str(group), exits=1)
    assert [(run["name"], run["failures"] > 0) for run in found["runs"]] == [
        ("one", False), ("two", True),
    ]  # fmt: skip


def test_who_holds_the_gpus_is_called_by_name(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    holder = cli.launch("--gpus", "1", "--name", "holder", "--", "sleep", "600").path.name
    verdict, said = verdicts(cli, write(cli), "--gpus", "1")["plan"]
    assert verdict == "WARN" and " holder " in said and holder not in said


@pytest.mark.parametrize("more", ["verify: true", "verify: [data]"])
def test_a_launch_is_refused_where_the_preset_asks(cli: CommandLine, more: str) -> None:
    preset = write(cli, more)
    (cli.folder / "images" / "c.jpg").unlink()
    refused = cli.run("launch", preset, exits=1)
    assert f"{NOT_LAUNCHED}: files: images: 2 found, 3 expected" in refused.stderr
    assert not list(cli.state.runs.iterdir())
    said = refused.stderr.partition("files: ")[2]
    planned = cli.run("plan", preset, "--json", exits=1)
    assert said and planned.stderr.endswith(said), "one function says it"
    assert json.loads(planned.stdout)["failing"] in planned.stderr
    assert cli.json("plan", preset, "--no-verify")["failing"] is None
    run = cli.launch(preset, "--no-verify")
    assert cli.ended(run)["state"] == "done"
    if more == "verify: [data]":
        after = cli.launch(preset, "--after", run.id)
        assert cli.ended(after)["state"] == "done", "what it waits for may make its data"
    (cli.folder / "images" / "c.jpg").write_text("jpg")
    assert cli.ended(cli.launch(preset))["state"] == "done"


def test_what_interpreter_and_torch_say(cli: CommandLine) -> None:
    from runners.verify.program_facts import ask_interpreter

    write(cli)
    (cli.folder / "torch.py").write_text(TORCH.replace("CUDA", "'12.8'"))
    found = ask_interpreter([sys.executable, "train.py"], cli.folder, {}, ["torch", "json"])
    assert found is not None and found.imports == {"torch": "", "json": ""}
    assert found.torch is not None and found.torch.cuda == "12.8"
    assert (found.torch.architectures, found.torch.devices) == (("sm_90",), ())
    (cli.folder / "torch.py").write_text("raise OSError('libcudnn.so.9: cannot open')\n")
    found = ask_interpreter([sys.executable, "train.py"], cli.folder, {}, ["torch"])
    assert found is not None and "libcudnn" in found.imports["torch"] and found.torch is None
    (cli.folder / "torch.py").write_text("import time\ntime.sleep(600)\n")
    found = ask_interpreter([sys.executable, "train.py"], cli.folder, {}, ["torch"], 0.5)
    assert found is not None and out_of_time(0.5) in found.problem
    assert ask_interpreter(["/bin/true"], cli.folder, {}) is None


def test_json_of_a_config_key_that_no_source_knows(cli: CommandLine) -> None:
    (cli.folder / "c.yaml").write_text("train: {lr: 0.1, momentun: 0.9, gpu: 7}\n")
    (cli.folder / "train.py").write_text("import yaml\nlr = 'lr'; gpu = 'gpu'; train = 1\n")
    (cli.folder / "q.yaml").write_text(
        json.dumps(
            {
                "launcher": "python",
                "interpreter": sys.executable,
                "script": "train.py",
                "working_directory": "${working_directory}",
                "gpus": 1,
                "config": {"file": "c.yaml", "parameters": {"train.lr": {}}},
            }
        )
    )
    found = cli.json("verify", str(cli.folder / "q.yaml"), exits=0)
    checks = {one["name"]: one for one in found["runs"][0]["checks"]}
    assert "train.momentun" in checks["configuration"]["message"]
    assert "GPU number" not in checks, "no GPU is given on this machine"
