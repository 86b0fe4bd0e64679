"""The panel in a real terminal, driven by keys as a person drives it."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.screen_text import (
    AGAIN_COMMAND,
    FOOTER,
    FORM,
    FREE,
    GPUS_PANE,
    HELP,
    LOG_PROMPTS,
    MATCHES,
    MEMORY,
    NEWEST_CHECKPOINT,
    NO_GPU,
    NO_RUNS,
    NONE_ON_DISK,
    PALETTE,
    PLAN,
    QUEUED_FOR,
    RUNS_HELP,
    RUNS_PANE,
    SQUARE_ROOT,
    STATE_FOLDER,
    STATE_GONE,
    STOP_COMMAND,
    again,
    as_launched,
    asked_for,
    assigned,
    at_least,
    edited,
    field,
    follow_the_gpus,
    gpu_row,
    help_of,
    in_all,
    is_stopping,
    not_chosen,
    run_row,
    stop_dialog,
    stopping_row,
    ticked,
)
from tests.support import eventually
from tests.terminal import KEYS, REPOSITORY, Terminal, headless, panel_command
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

READY = "ready"
COUNTING = r"counting \d+"
"""What it writes, line by line."""


@pytest.fixture(autouse=True)
def counter(presets: Path) -> None:
    (presets / "aa-counter.yaml").write_text(COUNTER)


def counted(panel: Terminal) -> int:
    """The last number of the counter that is on the screen; -1 while none is."""
    panel.read()
    return int(["-1", *re.findall(r"counting (\d+)", panel.text)][-1])


def runs() -> list[dict[str, object]]:
    return json.loads(headless("list", "--json").stdout)


def counter_form(show: Show) -> Terminal:
    """The counter's form, its first field ready for keys."""
    panel = show(FRESNEL_GPUS="sim:8xH100", columns=120, rows=40)
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(field("unused", 3))
    panel.press("Enter")
    panel.wait_for(help_of("unused", "a number"))
    return panel


def test_launch_watch_stop_quit_and_find_again(show: Show) -> None:
    panel = show(FRESNEL_GPUS="sim:4xMI300X")
    panel.wait_for(NO_RUNS)
    panel.press("n")
    panel.wait_for(FORM)
    panel.wait_for("aa-counter")
    panel.wait_for(PLAN)
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(COUNTING)
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
    again.wait_for(stop_dialog("aa-counter"))
    again.wait_for(f"{NEWEST_CHECKPOINT}: {NONE_ON_DISK}")
    again.press("y")
    again.wait_for(run_row(State.STOPPED, "aa-counter"))
    again.press("q")
    assert again.wait_end() == 0
    assert [run["state"] for run in runs()] == ["stopped"]


def test_launch_option_selects_the_new_run_and_quitting_leaves_it(show: Show) -> None:
    panel = show("--launch", "aa-counter", "--set", "gpus=0")
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(COUNTING)
    panel.press("Ctrl+Q")
    assert panel.wait_end() == 0
    assert [run["state"] for run in runs()] == ["running"]


def test_form_edits_parameters_and_gpus_and_shows_what_is_wrong(show: Show) -> None:
    panel = counter_form(show)
    panel.press("0")
    panel.wait_for(f"{at_least(1, 0)}|--set unused=")
    panel.press("Backspace", "Backspace", "7", "Tab")
    panel.wait_for(f"--unused 7|{field('unused', 7)}")
    panel.press("Home", "\x0b", "2-3")
    panel.wait_for(f"{assigned(2, 0)}, {assigned(3, 1)}")
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, r"aa-counter\s+2-3"))
    (run,) = runs()
    assert run["gpus"] == [2, 3]
    assert run["simulated"] is True


def test_keys_act_in_the_order_in_which_they_were_typed(show: Show) -> None:
    """Sent at once, as a slow line does: what is deleted, where the next goes, what is launched."""
    panel = counter_form(show)
    panel.wait_for(assigned(0, 0))
    keys = ["0", "Backspace", "Backspace", "7", "Tab", "Home", "\x0b", "2-3", "F2"]
    panel.press("".join(KEYS.get(key, key) for key in keys))
    panel.wait_for(run_row(State.RUNNING, r"aa-counter\s+2-3"))
    (run,) = runs()
    command = run["command"]
    assert isinstance(command, list)
    assert (run["gpus"], command[-2:]) == ([2, 3], ["--unused", "7"])


def test_nothing_is_launched_into_a_state_folder_that_went_away(show: Show) -> None:
    """It would have been made anew, where nobody knows of the runs that hold GPUs."""
    panel = counter_form(show)
    panel.wait_for(assigned(0, 0))
    state = StateDirectory().root
    state.rename(state.with_name("moved"))
    panel.press("F2")
    panel.wait_for(STATE_GONE)
    panel.press("n")
    panel.wait_for(f"✘ {STATE_FOLDER}")
    assert not state.exists()


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
    panel.wait_for(ticked(1, 1))
    panel.press("Enter")
    panel.wait_for(help_of("bs", "global batch"))
    panel.press("Tab", "Tab", "Tab")
    panel.press("Down", "Down")
    panel.press(" ")
    panel.wait_for(field("GPUs", r"0-2 "))
    panel.wait_for(edited("bs", r"24 "))
    panel.wait_for(edited("lr", r"0\.0006 "))
    panel.wait_for(follow_the_gpus(r"bs=24, lr=0\.0006", "linear"))
    panel.press("\x1bOR")  # F3
    panel.wait_for(edited("lr", r"0\.000346 "))
    panel.wait_for(follow_the_gpus("", SQUARE_ROOT))
    panel.press("Up", "Up", " ")
    panel.wait_for(field("GPUs", r"1-2 "))
    panel.wait_for(ticked(2, 1))
    panel.press("3-3")
    panel.wait_for(ticked(3, 0))
    panel.wait_for(edited("bs", r"8 "))
    panel.press("F2")
    panel.wait_for(run_row(State.RUNNING, r"aa-scaled\s+3 "))
    panel.wait_for(r"got --bs 8 --lr 0\.0002")
    (run,) = runs()
    assert run["gpus"] == [3]


def test_a_run_is_launched_again_as_it_was_or_varied(show: Show) -> None:
    first = headless(
        "launch",
        "aa-counter",
        "--gpus",
        "0",
        "--set",
        "unused=41",
        "--name",
        "old",
        "--wait",
        "--set",
        "command=echo first",
    )
    assert first.returncode == 0, first.stderr
    panel = show(columns=120, rows=40)
    panel.wait_for(run_row(State.DONE, "old"))
    panel.press("a")
    panel.wait_for(again("old"))
    panel.wait_for(as_launched("old"))
    panel.wait_for(edited("unused", r"41"))
    panel.press("Enter")
    panel.wait_for(help_of("unused", "a number"))
    panel.press("42")
    panel.wait_for(edited("unused", r"42"))
    panel.press("F2")
    panel.wait_for(in_all(2))
    found = eventually(
        lambda: (now := runs()) and all(run["state"] == "done" for run in now) and now
    )
    panel.wait_gone("▶")
    assert sorted(spec_value(run, "unused") for run in found) == [41, 42]
    assert {run["name"] for run in found} == {"old"}


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
    panel.wait_for(QUEUED_FOR + asked_for("1 GPU"))
    panel.wait_for(not_chosen(0, "A", "holder"))


def test_a_stop_counts_down_and_a_second_press_takes_the_next_rung(
    show: Show, presets: Path
) -> None:
    (presets / "stubborn.yaml").write_text(
        "launcher: command\nshell: true\ncommand: trap '' INT; echo ready; while :; do sleep "
        "0.1; done\ngpus: 0\n"
        "stop: {ladder: [SIGINT 90s, SIGKILL 5s]}\n"
    )
    panel = show("--launch", "stubborn", columns=160, rows=40)
    panel.wait_for(run_row(State.RUNNING, "stubborn"))
    panel.wait_for(READY)
    panel.press("s")
    panel.wait_for(stop_dialog("stubborn"))
    panel.press("y")
    panel.wait_for(stopping_row(r"[678]\d", "stubborn"))
    panel.press("s")
    panel.wait_for(is_stopping(1, 2, "SIGINT"))
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
    panel.wait_gone(HELP)
    panel.press("3/")
    panel.wait_for(LOG_PROMPTS["search"])
    panel.press("counting 12", "Enter")
    panel.wait_for(MATCHES)
    panel.press("z")
    panel.wait_gone(RUNS_PANE)
    panel.press("z")
    panel.wait_for(RUNS_PANE)
    panel.press("Ctrl+P")
    panel.wait_for(PALETTE)
    panel.press("launch again")
    panel.wait_for(AGAIN_COMMAND)
    panel.press("Escape")
    panel.wait_gone(STOP_COMMAND)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (250, 70)])
def test_sizes_show_gpus_runs_log_and_keys(show: Show, size: tuple[int, int]) -> None:
    panel = show(
        "--launch", "aa-counter", columns=size[0], rows=size[1], FRESNEL_GPUS="sim:8xMI300X"
    )
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(GPUS_PANE)
    panel.wait_for(gpu_row(7, FREE))
    panel.wait_for(FOOTER)
    panel.wait_for(COUNTING)


def test_without_gpus_the_pane_shows_the_cpu(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_GPU)
    panel.wait_for(MEMORY)


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
