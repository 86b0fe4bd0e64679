"""The launch form in a real terminal: own commands, presets that cannot run, busy GPUs, saving."""

import json
import os
import sys
from pathlib import Path

import pytest

from runners.model.states import State
from runners.slurm.client import is_installed
from tests.command_text import lacks
from tests.screen_text import (
    ANY_RUNS,
    CANNOT_RUN,
    COMMAND_HELP,
    FIELD_HELP,
    FORM,
    NO_FILE,
    ON_CPU,
    OWN_COMMAND,
    QUEUED_FOR,
    SAMPLE_NEEDED,
    SAVE_PRESET,
    SAVED,
    VALUE_MISSING,
    WHOLE_NUMBER,
    again,
    at_a_time,
    command,
    command_field,
    edited,
    field,
    held_by,
    help_of,
    no_sampler,
    overwrite,
    run_row,
    ticked,
    waited_for,
    will_suggest,
)
from tests.support import eventually
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show, sized

TYPED = "hello  world"
COMMAND = f"echo '{TYPED}'; pwd"
F4, F5, F6 = "\x1bOS", "\x1b[15~", "\x1b[17~"


@pytest.fixture
def presets(presets: Path) -> Path:
    (presets / "aa-sleep.yaml").write_text(
        "launcher: command\ncommand: [sleep, '300']\ngpus: 2\n"
        "parameters: {x: {value: 1, flag: '', minimum: 1, help: a number}}\n"
    )
    (presets / "aa-broken.yaml").write_text("launcher: python\nscript: nowhere.py\ngpus: 0\n")
    return presets


@pytest.fixture
def show(show: Show, presets: Path) -> Show:
    return sized(show, 168, 40, until=ANY_RUNS)


def plan_of(name: str) -> dict[str, object]:
    runs = json.loads(headless("list", "--json", "--all").stdout)
    (found,) = [run for run in runs if run["name"] == name]
    plan: dict[str, object] = json.loads((Path(found["directory"]) / "plan.json").read_text())
    return plan


def move(panel: Terminal, key: str, *fields: str) -> None:
    """Press `key` for each of the fields, and wait until it has the cursor: its help is shown."""
    for name in fields:
        panel.press(key)
        panel.wait_for(rf"\n│ {name}: ")


def test_a_command_is_typed_named_launched_edited_and_launched_again(
    show: Show, tmp_path: Path
) -> None:
    panel = show(rows=50)
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.wait_for(r"aa-sleep")
    panel.press(COMMAND, "Enter")
    panel.wait_for(command_field(COMMAND))
    panel.wait_for(COMMAND_HELP)
    panel.wait_for(field("command", r"stdbuf .*sh -c"))
    panel.press("Tab")
    panel.wait_for(FIELD_HELP["name"])
    panel.press("mine", "Tab")
    panel.wait_for(FIELD_HELP["folder"])
    panel.press(str(tmp_path))
    panel.wait_for(field("directory", tmp_path))
    panel.press("F2")
    panel.wait_for(run_row(State.DONE, "mine"))
    panel.wait_for(TYPED)
    first = plan_of("mine")
    assert first["argv"][-1] == COMMAND
    assert first["working_directory"] == str(tmp_path)
    panel.press("a")
    panel.wait_for(again("mine"))
    panel.wait_for(command_field(COMMAND))
    panel.press("Enter")
    panel.wait_for(COMMAND_HELP)
    panel.press("echo second", "Tab")
    panel.wait_for(FIELD_HELP["name"])
    panel.press("other")
    panel.wait_for(field("command", ".*echo second"))
    panel.press("F2")
    panel.wait_for(run_row(State.DONE, "other"))
    second = plan_of("other")
    assert second["argv"][-1] == "second"
    assert second["working_directory"] == str(tmp_path), "it runs where the first one ran"
    panel.press("c")
    panel.wait_for(command("launch", ".*--name other .*-- echo second"))


def test_on_a_narrow_terminal_a_value_has_the_cells_of_its_help(show: Show) -> None:
    panel = show(columns=80, rows=24, FRESNEL_GPUS="none")
    panel.press("n")
    panel.wait_for(field("x", r"1 "))
    panel.press("Enter")
    panel.wait_for(help_of("x", "a number"))
    panel.press(",".join(map(str, range(10, 18))))
    panel.wait_for(field("x", "10,11,12,13,14,15,16,17"))


def test_what_is_typed_behind_enter_is_for_the_field_that_opens(show: Show) -> None:
    panel = show(columns=80, rows=24, FRESNEL_GPUS="none")
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    os.write(panel.window, b"own\recho 1 22 333")
    panel.wait_for(r"command +│\n│ +echo 1 22 333 +│")
    panel.press("F2")
    panel.wait_for(run_row(State.DONE, "echo"))
    assert plan_of("echo")["argv"][-3:] == ["1", "22", "333"]


def test_a_whole_name_that_is_typed_chooses_what_is_called_so(show: Show, presets: Path) -> None:
    for name, parameter in (("aa-walk", "y"), ("aa-walk-tiny", "x")):
        (presets / f"{name}.yaml").write_text(
            f"launcher: command\ncommand: ['true']\ngpus: 0\n"
            f"parameters: {{{parameter}: {{value: 1, flag: '', help: a number}}}}\n"
        )
    headless("launch", "aa-walk-tiny", "--wait")  # what ran last stands first
    panel = show()
    panel.press("n")
    panel.wait_for(rf"(?s){OWN_COMMAND}.*aa-walk-tiny.*aa-walk ")
    panel.press("AA-walk", "Enter")
    panel.wait_for(help_of("y", "a number"))


def test_without_parameters_the_first_field_that_is_seen_has_the_cursor(
    show: Show, presets: Path
) -> None:
    (presets / "aa-plain.yaml").write_text("launcher: command\ncommand: ['true']\ngpus: 0\n")
    panel = show(FRESNEL_GPUS="sim:2xH100")
    panel.press("n")
    panel.wait_for(rf"(?s){OWN_COMMAND}.*aa-plain")
    panel.press("aa-plain", "Enter")
    panel.wait_for(help_of("GPUs", "a count"))
    panel.press("Backspace", "2")
    panel.wait_for(ticked(0))
    panel.wait_for(ticked(1, 1))


def test_what_cannot_run_here_says_why_and_stands_last(show: Show) -> None:
    panel = show(columns=160, rows=50)
    panel.press("n")
    panel.wait_for(field("x", r"1 "))
    assert b"Toggle" not in panel.raw, "a heading of Textual's over nothing, before there is a plan"
    text = panel.wait_for(rf"(?s){OWN_COMMAND}.*aa-sleep").group(0)
    assert "aa-broken" not in text
    panel.press("broken")
    panel.wait_for(r"⊘ aa-broken")
    panel.wait_for(f"{CANNOT_RUN}: {NO_FILE}")
    panel.wait_for(r"nowhere\.py")
    panel.wait_gone("aa-sleep")


def test_a_preset_that_names_what_no_file_can_be_called_stands_beside_the_others(
    show: Show, presets: Path
) -> None:
    """None of them was listed, and the form took no key but Esc."""
    long = "x" * 300
    (presets / "aa-odd.yaml").write_text(
        f"launcher: command\ncommand: [echo]\nworking_directory: {long}\ngpus: 0\n"
    )
    (presets / "aa-script.yaml").write_text(f"launcher: python\nscript: {long}.py\ngpus: 0\n")
    panel = show()
    panel.press("n")
    panel.wait_for("aa-sleep")
    panel.press("aa-")
    panel.wait_for("aa-odd")
    panel.wait_for("aa-script")
    panel.press("sl", "Enter")
    panel.wait_for(help_of("x", "a number"))


def test_ticks_stay_when_a_busy_gpu_is_chosen(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    held = headless("launch", "--gpu-ids", "1", "--name", "holder", "--", "sleep", "600")
    assert held.returncode == 0, held.stderr
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "holder"))
    panel.press("n")
    panel.wait_for(ticked(2, 1))
    panel.press("Enter")
    panel.wait_for(help_of("x", "a number"))
    move(panel, "Tab", "GPUs")
    panel.press("Tab")
    panel.wait_gone(r"\n│ GPUs: ")
    panel.press("Down", " ")
    panel.wait_for(field("GPUs", r"0-2 "))
    panel.wait_for(waited_for(1, "holder"))
    panel.wait_for(QUEUED_FOR + held_by(1, ""))
    assert panel.wait_for(ticked(0)) and panel.wait_for(ticked(2))
    panel.press(" ")
    panel.wait_for(field("GPUs", r"0,2 "))
    panel.wait_for(ticked(2, 1))


def test_the_form_becomes_a_preset_and_an_editor_s_mistake_is_told(
    show: Show, presets: Path, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\necho "lancher: x" >> "$1"\n')
    editor.chmod(0o755)
    panel = show(EDITOR=str(editor), FRESNEL_GPUS="sim:4xH100")
    panel.press("n")
    panel.wait_for(field("x", r"1 "))
    panel.press("Enter")
    panel.wait_for(help_of("x", "a number"))
    panel.press("7", F4)
    panel.wait_for(edited("x", r"7"))
    panel.wait_for(field("name", r"aa-sleep"))
    panel.press(F5)
    panel.wait_for(SAVE_PRESET)
    panel.press("Enter")
    panel.wait_for(overwrite("aa-sleep"))
    panel.press("n")
    panel.wait_gone(overwrite("aa-sleep"))
    panel.press(F5)
    panel.wait_for(SAVE_PRESET)
    panel.press("aa-mine", "Enter")
    panel.wait_for(SAVED)
    saved = presets / "aa-mine.yaml"
    assert "value: 7" in saved.read_text()
    panel.wait_for(field("run", r"\S+-aa-mine-"))  # the plan of what is chosen in the list
    panel.press(F6)
    panel.wait_for(r"✘ aa-mine")
    panel.wait_for(r"(?s)lancher:.{0,250}did you mean")


def test_several_values_in_a_field_make_a_sweep(show: Show, tmp_path: Path) -> None:
    panel = show(FRESNEL_GPUS="none")
    panel.press("n")
    panel.wait_for(field("x", r"1 "))
    panel.press("Enter")
    panel.wait_for(help_of("x", "a number"))
    panel.press("2,3")
    move(panel, "Tab", "GPUs")
    panel.press("0")
    panel.wait_for(field("sweep", r"2 runs"))
    panel.wait_for(r"aa-sleep-x2\s")
    move(panel, "Up", "x")
    panel.press("End")
    panel.press("Backspace")
    panel.wait_for(VALUE_MISSING)
    panel.press("0")
    panel.wait_for(field("x", r"2,0 "))
    panel.wait_gone(VALUE_MISSING)
    panel.press(*["Backspace"] * 3)
    panel.wait_for(r"✎ x {17}a number|✎ x {20,}")
    panel.press("2..2.5")
    panel.wait_for(help_of("x", SAMPLE_NEEDED))


def test_a_sampler_suggests_values_for_an_own_command(show: Show, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    panel = show(rows=50, FRESNEL_GPUS="none")
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.wait_for(r"aa-sleep")
    panel.press("echo loss: {lr}", "Enter")
    panel.wait_for(COMMAND_HELP)
    move(panel, "Tab", "name", "folder", "checkpoints", "priority", "after", "price")
    move(panel, "Tab", *(["slurm"] if is_installed() else []), "values")
    panel.press("lr=1.0..4.0:log")
    panel.wait_for(help_of("lr", SAMPLE_NEEDED))
    move(panel, "Tab", "samples")
    panel.press("3")
    move(panel, "Tab", "sampler")
    panel.press("best")
    panel.wait_for(f"sampler best: {no_sampler('best')}")
    panel.press(*["Backspace"] * 4)
    panel.wait_for("sampler {8,}random")
    panel.press("tpe")
    panel.wait_for(help_of("lr", will_suggest("tpe", "loss")))
    move(panel, "Tab", "sample-seed", "parallel", "early-stop")
    move(panel, "Up", "parallel")
    panel.press("2x")
    panel.wait_for(help_of("parallel", WHOLE_NUMBER))
    panel.press("Backspace")
    panel.wait_for(field("sweep", at_a_time(3, 2)))
    move(panel, "Tab", "early-stop")
    panel.press("median")
    panel.wait_for(field("sweep", at_a_time(3, 2)))
    move(panel, "Tab", "GPUs")
    panel.press("0")
    panel.wait_for(field("GPUs", ON_CPU))
    panel.press("F2")
    panel.wait_for(r"sweep echo-\w+: 3 runs")
    panel.wait_gone(FORM)
    runs = json.loads(headless("list", "--json", "--all").stdout)
    assert len(runs) == 3 and len({run["group"] for run in runs}) == 1
    for run in runs:
        assert headless("wait", run["id"]).returncode == 0

    def losses() -> set[float | None]:
        done = json.loads(headless("list", "--json", "--all").stdout)
        return {run["metrics"].get("loss") for run in done}

    eventually(lambda: len(losses() - {None}) == 3, what="three values, all different")
    panel.press("c")
    panel.wait_for(command("launch", "--gpus 0 --samples 3 --sampler tpe"))
    panel.wait_for(r"--parallel 2 --early-stop median")
    panel.wait_for(r"lr=1\.0\.\.4\.0:log")
    panel.wait_for(r"-- echo loss: '\{lr\}'")


def test_a_missing_package_is_said_before_the_launch(presets: Path, tmp_path: Path) -> None:
    script = tmp_path / "t.py"
    script.write_text("import no_such_package_x\n")
    (presets / "needy.yaml").write_text(
        f"launcher: python\ninterpreter: {sys.executable}\nscript: {script}\ngpus: 0\n"
        "needs: {packages: [no_such_package_x]}\n"
    )
    plan = headless("plan", "needy")
    assert plan.returncode == 2
    assert f"{lacks('no_such_package_x')}; to install: " in plan.stdout
    launched = headless("launch", "needy")
    assert launched.returncode == 2 and "install no_such_package_x" in launched.stderr
    assert json.loads(headless("list", "--json", "--all").stdout) == []


def test_the_rate_follows_the_batch_by_the_rule_that_a_key_changes(
    show: Show, presets: Path
) -> None:
    (presets / "aa-batch.yaml").write_text(
        "launcher: command\ncommand: [sleep, '300']\ngpus: 4\n"
        "parameters:\n  batch_size: {value: 8, flag: '', help: of each device}\n"
        "  lr: {value: 1e-3, flag: '', help: the rate}\n"
        "scaling: {batch: batch_size, per: device, learning_rate: lr, rule: linear, "
        "base_batch: 32, base_rate: 1e-3}\n"
    )
    panel = show(rows=50)
    panel.press("n", *"aa-batch", "Enter")
    panel.wait_for(FORM)
    move(panel, "Tab", "lr", "GPUs")
    panel.press("Backspace", "8")
    panel.wait_for(r"lr=0\.002 follow the GPUs: linear \(F3 changes\)")
    panel.wait_for(r"changed +lr 0\.001 → 0\.002")
    panel.press("\x1bOR")
    panel.wait_for(r"lr=0\.00141\d* follow the GPUs: square root")
    panel.wait_for(r"changed +lr 0\.001 → 0\.00141")
