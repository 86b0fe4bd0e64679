"""Tab in real shells: the script that `completion` prints, and what is offered at the cursor."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import COMMAND, end_everything
from tests.support import CEILING_S, REPOSITORY, eventually, stats_below
from tests.terminal import Terminal
from tests.warm import COMMANDS

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(fresnel-tui completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -Uz compinit; compinit -u; eval "$(fresnel-tui completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "--private"], "fresnel-tui completion fish | source"),
}
PRESET = """\
launcher: command
command: ["sh", "-c", "sleep 600"]
gpus: 0
parameters:
  unused: {value: 3, type: int, minimum: 1, help: a number}
  flavour: {value: sweet, choices: [sweet, sour]}
"""
SHELL = pytest.param("bash"), pytest.param("zsh"), pytest.param("fish")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to stand in, with the command on the path and a preset in the user's folder."""
    command = tmp_path / "bin" / "fresnel-tui"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m fresnel_tui "$@"\n')
    command.chmod(0o755)
    presets = tmp_path / "config" / "fresnel-tui" / "presets"
    presets.mkdir(parents=True)
    (presets / "zz-counter.yaml").write_text(PRESET)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    monkeypatch.chdir(tmp_path / "work")
    yield tmp_path
    end_everything(StateDirectory())


def run(*words: str) -> str:
    done = COMMANDS.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=CEILING_S, check=True
    )
    return str(done.stdout)


def offers(line: str, **environment: str) -> list[str]:
    """What is offered at the end of the line, asked for as the shell's script asks."""
    answer = Path("answer")
    asked = {
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "fish",
    }
    where = {
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    done = COMMANDS.run(
        COMMAND,
        env={**os.environ, **asked, **where, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr
    return answer.read_text().splitlines()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything under a folder with its size and when it was last written."""
    found = stats_below(folder).items()
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found}


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest, place: Path) -> Iterator[Terminal]:
    words, setting_up = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    terminal = Terminal(words, 120, 40, PS1="ready> ", FRESNEL_READY="set")
    terminal.press(f"{setting_up}; echo all $FRESNEL_READY", "Enter")
    terminal.wait_for(r"(?m)^all set$")
    yield terminal
    terminal.close()


def test_tab_finishes_the_id_of_the_live_run(shell: Terminal) -> None:
    ended = run("launch", "--gpus", "0", "--name", "over", "--wait", "--", "true").strip()
    live = run("launch", "zz-counter", "--name", "alive").strip()
    year = live[:4]
    assert ended.startswith(year)
    shell.press(f"fresnel-tui stop {year}", "Tab")
    shell.wait_for(f"stop {live}")
    shell.press("Enter")
    eventually(
        lambda: live in run("list", "--json") and '"stopped"' in run("status", live, "--json")
    )


def test_tab_finishes_presets_and_their_parameters(shell: Terminal) -> None:
    shell.press("fresnel-tui plan zz-c", "Tab")
    shell.wait_for("plan zz-counter")
    shell.press(" --set unu", "Tab")
    shell.wait_for("--set unused=")
    shell.press("7", "Enter")
    shell.wait_for("unused.*7")


def test_live_runs_come_first_each_command_is_offered_what_it_can_use(place: Path) -> None:
    ended = run("launch", "--gpus", "0", "--name", "over", "--wait", "--", "true").strip()
    live = run("launch", "zz-counter", "--name", "alive").strip()
    assert offers("fresnel-tui stop ") == [live, "alive"]
    assert offers("fresnel-tui logs ") == [live, "alive", ended, "over", "last"]
    assert offers("fresnel-tui fetched ") == [ended, "over", "last"]
    assert offers(f"fresnel-tui stop {live} ") == ["alive"]
    assert offers("fresnel-tui launch zz-counter --after alive:") == [
        f"alive:{x}" for x in ("success", "failure", "any")
    ]
    assert offers("fresnel-tui launch --again over --set ") == []


def test_options_parameters_values_prices_and_files(place: Path) -> None:
    assert "serve" in offers("fresnel-tui ") and "stop" in offers("fresnel-tui --no-ui ")
    assert "--launch" in offers("fresnel-tui --") and "--gpu-ids" in offers(
        "fresnel-tui launch --gpu"
    )
    assert offers("fresnel-tui --launch zz-counter --set ") == ["unused=", "flavour="]
    assert offers("fresnel-tui plan zz-counter --set flavour=") == ["flavour=sweet", "flavour=sour"]
    assert offers("fresnel-tui plan zz-counter --set pri") == ["price=", "priority="]
    assert offers("fresnel-tui plan zz-counter --set after.o") == ["after.on="]
    ends = [f"after.on={end}" for end in ("success", "failure", "any")]
    assert offers("fresnel-tui plan zz-counter --set after.on=") == ends
    assert offers("fresnel-tui plan zz-counter --set shell=t") == ["shell=true"]
    assert "amd-cloud-mi300x" in offers("fresnel-tui session start --price amd")
    assert offers("fresnel-tui cost plan zz") == ["zz-counter:"]
    Path("mine.yaml").write_text("nonsense: [")
    assert offers("fresnel-tui plan ./m") == ["./mine.yaml"]
    assert offers("fresnel-tui plan ./mine.yaml --set ") == []
    Path("train.py").touch()
    assert offers("fresnel-tui launch --gpus 0 -- python tra") == ["train.py"]


def test_gpus_are_those_that_the_sampler_last_saw(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:3xH100")
    assert offers("fresnel-tui launch zz-counter --gpu-ids ") == []
    run("gpus")
    assert offers("fresnel-tui launch zz-counter --gpu-ids ") == ["0", "1", "2"]
    assert offers("fresnel-tui launch zz-counter --gpu-ids 1,") == ["1,0", "1,2"]
    assert offers("fresnel-tui launch zz-counter --gpu-ids ", FRESNEL_GPUS="none") == []


LINES = (
    "stop ",
    "logs 2",
    "launch ",
    "launch zz-counter --set ",
    "launch --gpu-ids ",
    "session start --price ",
)


def test_looking_writes_nothing_and_starts_nothing(place: Path) -> None:
    state = Path(os.environ["FRESNEL_STATE_DIR"])
    for line in LINES:
        offers(f"fresnel-tui {line}")
    assert not state.exists()
    run("launch", "--gpus", "0", "--wait", "--", "true")
    # The last that is written of a run, by a helper that outlives `--wait`.
    eventually(lambda: list(state.glob("runs/*/final.json")), what="the run's final values")
    before = eventually(lambda: (found := tree(state)) == tree(state) and found)
    for line in LINES:
        offers(f"fresnel-tui {line}")
    assert tree(state) == before


@pytest.mark.parametrize("line", LINES)
def test_no_screen_is_imported(place: Path, line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-P", "-m", "fresnel_tui"],
        env={
            **os.environ,
            "COMP_LINE": f"fresnel-tui {line}",
            "COMP_POINT": str(len(f"fresnel-tui {line}")),
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {
        words.rpartition("|")[2].strip().partition(".")[0] for words in done.stderr.splitlines()
    }
    assert "argcomplete" in loaded
    assert not loaded & {
        "textual",
        "rich",
        "torch",
        "numpy",
        "watchfiles",
        "pynvml",
        "aiohttp",
        "textual_serve",
    }


def test_without_argcomplete_it_says_what_to_install(place: Path) -> None:
    (place / "hidden" / "argcomplete").mkdir(parents=True)
    (place / "hidden" / "argcomplete" / "__init__.py").write_text("raise ImportError")
    done = subprocess.run(
        ["fresnel-tui", "completion", "bash"],
        env={**os.environ, "PYTHONPATH": f"{place / 'hidden'}:{REPOSITORY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "pip install argcomplete" in done.stderr


def test_labels_deleted_runs_queued_runs_and_commands(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    gone = run("launch", "--gpus", "0", "--name", "gone", "--wait", "--", "true").strip()
    kept = run("launch", "--gpus", "0", "--name", "kept", "--wait", "--", "true").strip()
    run("delete", "gone")
    run("tag", "kept", "good", "paper")
    assert offers("fresnel-tui undelete ") == [gone, "gone"]
    assert offers("fresnel-tui tag kept ") == ["good", "paper"]
    assert offers("fresnel-tui untag kept good ") == ["paper"]
    holder = run("launch", "--gpus", "1", "--name", "holder", "--", "sleep", "600").strip()
    waits = run("launch", "--gpus", "1", "--name", "waits", "--", "sleep", "600").strip()
    assert offers("fresnel-tui cancel ") == [waits, "waits"]
    assert set(offers("fresnel-tui kill ")) == {waits, "waits", holder, "holder"}
    assert offers("fresnel-tui delete ") == [kept, "kept", "last"]
    assert offers("fresnel-tui compare kept h") == ["holder"]
    assert "list" in offers("fresnel-tui schema li")
    assert offers("fresnel-tui launch zz-counter --early-stop ") == ["median"]
    assert offers("fresnel-tui presets save mine --fr") == ["--from"]
