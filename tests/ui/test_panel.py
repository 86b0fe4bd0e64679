"""The panel in a real terminal, driven by keys as a person drives it."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from runners.model.states import State
from tests.screen_text import NO_RUNS, RUNS_HELP, run_row
from tests.support import eventually
from tests.terminal import REPOSITORY, Terminal, headless, panel_command
from tests.ui.conftest import Show

COUNTER = """\
launcher: command
shell: true
command: "for i in $(seq 1 100000); do echo counting $i; sleep 0.2; done"
gpus: 1
parameters:
  unused: {value: 3, type: int, minimum: 1, help: a number}
stop:
  ladder: [SIGINT 5s, SIGKILL 5s]
  target: group
"""


@pytest.fixture(autouse=True)
def counter(presets: Path) -> None:
    (presets / "aa-counter.yaml").write_text(COUNTER)


def counted(panel: Terminal) -> int:
    """The last number of the counter that is on the screen; -1 while none is."""
    panel.read()
    return int(["-1", *re.findall(r"counting (\d+)", panel.text)][-1])


def runs() -> list[dict[str, object]]:
    return json.loads(headless("list", "--json").stdout)


def test_launch_watch_stop_quit_and_find_again(show: Show) -> None:
    panel = show(FRESNEL_GPUS="sim:4xMI300X")
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for("Launch a run")
    panel.wait_for("aa-counter")
    panel.wait_for("Plan: exactly what runs")
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(r"counting \d+")
    panel.wait_for("A:0")
    panel.press("q")
    assert panel.wait_end() == 0

    (run,) = runs()
    assert run["state"] == "running"
    again = show(FRESNEL_GPUS="sim:4xMI300X")
    again.wait_for(run_row(State.RUNNING, "aa-counter"))
    before = eventually(lambda: counted(again) + 1, what="a number")
    eventually(lambda: counted(again) > before + 5, what="the log going on")
    again.press("s")
    again.wait_for("Stop aa-counter")
    again.wait_for("Newest checkpoint: none seen on disk")
    again.press("y")
    again.wait_for(run_row(State.STOPPED, "aa-counter"))
    again.press("q")
    assert again.wait_end() == 0
    assert [run["state"] for run in runs()] == ["stopped"]


def test_launch_option_selects_the_new_run_and_quitting_leaves_it(show: Show) -> None:
    panel = show("--launch", "aa-counter", "--set", "gpus=0")
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(r"counting \d+")
    panel.press("Ctrl+Q")
    assert panel.wait_end() == 0
    assert [run["state"] for run in runs()] == ["running"]


def test_form_edits_parameters_and_gpus_and_shows_what_is_wrong(show: Show) -> None:
    panel = show(FRESNEL_GPUS="sim:8xH100", columns=120, rows=40)
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(r"unused\s+3")
    panel.press("Enter")
    panel.wait_for("unused: a number")
    panel.press("0")
    panel.wait_for("expected at least 1, got 0|--set unused=")
    panel.press("Backspace", "Backspace", "7", "Tab")
    panel.wait_for("--unused 7|unused +7")
    panel.press("Home", "\x0b", "2-3")
    panel.wait_for("GPU 2 → device 0, GPU 3 → device 1")
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, r"aa-counter\s+2-3"))
    (run,) = runs()
    assert run["gpus"] == [2, 3]
    assert run["simulated"] is True


SCALED = """\
launcher: command
command: ["sh", "-c", "echo got $0 $*; sleep 300"]
parameters:
  bs: {value: 16, minimum: 1, help: global batch}
  lr: {value: 4e-4, type: float}
scaling: {batch: bs, learning_rate: lr, rule: linear, base_batch: 8, base_rate: 2e-4}
gpus: 2
"""


def test_the_picker_toggles_gpus_and_batch_and_rate_follow_in_sight(
    show: Show, presets: Path
) -> None:
    (presets / "aa-counter.yaml").unlink()
    (presets / "aa-scaled.yaml").write_text(SCALED)
    panel = show(FRESNEL_GPUS="sim:4xH100", columns=120, rows=40)
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(r"\[x\] GPU 1 .*→ device 1")
    panel.press("Enter")
    panel.wait_for("bs: global batch")
    panel.press("Tab", "Tab", "Tab")
    panel.press("Down", "Down")
    panel.press(" ")
    panel.wait_for(r"GPUs +0-2 ")
    panel.wait_for(r"✎ bs +24 ")
    panel.wait_for(r"✎ lr +0\.0006 ")
    panel.wait_for(r"bs=24, lr=0\.0006 follow the GPUs: linear")
    panel.press("\x1bOR")  # F3
    panel.wait_for(r"✎ lr +0\.000346 ")
    panel.wait_for("follow the GPUs: square root")
    panel.press("Up", "Up", " ")
    panel.wait_for(r"GPUs +1-2 ")
    panel.wait_for(r"\[x\] GPU 2 .*→ device 1")
    panel.press("3-3")
    panel.wait_for(r"\[x\] GPU 3 .*→ device 0")
    panel.wait_for(r"✎ bs +8 ")
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, r"aa-scaled\s+3 "))
    panel.wait_for(r"got --bs 8 --lr 0\.0002")
    (run,) = runs()
    assert run["gpus"] == [3]


def test_a_run_is_launched_again_as_it_was_or_varied(show: Show) -> None:
    first = headless("launch", "aa-counter", "--gpus", "0", "--set", "unused=41", "--name", "old", "--wait", "--set",
                     "command=echo first")  # fmt: skip
    assert first.returncode == 0, first.stderr
    panel = show(columns=120, rows=40)
    panel.wait_for(run_row(State.DONE, "old"))
    panel.press("a")
    panel.wait_for("old again")
    panel.wait_for(r"as 20\S+-old-\w+ was launched")
    panel.wait_for(r"✎ unused +41")
    panel.press("Enter")
    panel.wait_for("unused: a number")
    panel.press("42")
    panel.wait_for(r"✎ unused +42")
    panel.press("F2")
    panel.wait_for(r"2 in all")
    panel.wait_gone(r"▶")
    assert sorted(spec_value(run, "unused") for run in runs()) == [41, 42]
    assert {run["name"] for run in runs()} == {"old"} and {run["state"] for run in runs()} == {
        "done"
    }


def spec_value(run: dict[str, object], name: str) -> object:
    spec = json.loads((Path(str(run["directory"])) / "spec.json").read_text())
    return next(parameter["value"] for parameter in spec["parameters"] if parameter["name"] == name)


def test_refused_launch_says_who_holds_the_gpus(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = headless("launch", "--gpu-ids", "0", "--name", "holder", "--", "sleep", "600")
    assert held.returncode == 4  # no GPU without the simulation
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    assert (
        headless("launch", "--gpu-ids", "0", "--name", "holder", "--", "sleep", "600").returncode
        == 0
    )
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "holder"))
    panel.press("n")
    panel.wait_for("queued: 1 GPU asked for")
    panel.wait_for(r"\[ \] GPU 0 .* A holder")


def test_a_stop_counts_down_and_a_second_press_takes_the_next_rung(
    show: Show, presets: Path
) -> None:
    (presets / "stubborn.yaml").write_text(
        "launcher: command\nshell: true\ncommand: trap '' INT; echo up; while :; do sleep "
        "0.1; done\ngpus: 0\n"
        "stop: {ladder: [SIGINT 90s, SIGKILL 5s]}\n"
    )
    panel = show("--launch", "stubborn", columns=160, rows=40)
    panel.wait_for(run_row(State.RUNNING, "stubborn"))
    panel.wait_for("up")
    panel.press("s")
    panel.wait_for("Stop stubborn")
    panel.press("y")
    panel.wait_for(r"◼ stop [678]\ds\s+stubborn")
    panel.press("s")
    panel.wait_for(r"It is stopping: step 1 of 2, SIGINT")
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "stubborn"))


def test_help_palette_search_and_zoom(show: Show) -> None:
    panel = show("--launch", "aa-counter", "--set", "gpus=0")
    eventually(lambda: counted(panel) > 12, what="something to look for")
    panel.press("?")
    panel.wait_for(RUNS_HELP)
    panel.press("PageDown")
    panel.wait_gone(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone("Keys ─")
    panel.press("3/")
    panel.wait_for("search in the log")
    panel.press("counting 12", "Enter")
    panel.wait_for(r"paused|matches|match")
    panel.press("z")
    panel.wait_gone("Runs ─")
    panel.press("z")
    panel.wait_for("Runs ─")
    panel.press("Ctrl+P")
    panel.wait_for("Search for commands")
    panel.press("launch again")
    panel.wait_for("the selected run, or a variation of it")
    panel.press("Escape")
    panel.wait_gone("Stop the selected run")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (250, 70)])
def test_sizes_show_gpus_runs_log_and_keys(show: Show, size: tuple[int, int]) -> None:
    panel = show(
        "--launch", "aa-counter", columns=size[0], rows=size[1], FRESNEL_GPUS="sim:8xMI300X"
    )
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for("GPUs · simulated")
    panel.wait_for(r"7 .*free")
    panel.wait_for("n Launch")
    panel.wait_for(r"counting \d+")


def test_without_gpus_the_pane_shows_the_cpu(show: Show) -> None:
    panel = show()
    panel.wait_for("CPU · no GPU here")
    panel.wait_for(r"memory .*[GM]/")


def test_terminal_gone_ends_the_panel_and_not_the_run(show: Show) -> None:
    panel = show("--launch", "aa-counter", "--set", "gpus=0")
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    os.kill(panel.child.pid, signal.SIGHUP)
    panel.wait_end()
    assert [run["state"] for run in runs()] == ["running"]


def test_panel_without_a_terminal_says_what_to_do() -> None:
    ended = subprocess.run(
        panel_command(),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "needs a terminal" in ended.stderr
    assert "--follow" in ended.stderr
