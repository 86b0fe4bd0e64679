"""The run table in a real terminal: every run reached, found, sorted, labelled, by keys alone."""

import json
import time

import msgspec
import pytest

from runners.host.files import replace
from runners.host.identity import host_name
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.command_text import NO_METRIC, did_you_mean
from tests.screen_text import (
    FINDING,
    FOOTER,
    HEADINGS,
    NO_FURTHER,
    SORT,
    brought_back,
    deletion,
    field,
    first_row,
    found_of,
    gpu_row,
    held_by,
    in_all,
    log_of,
    marked,
    queue_place,
    queued_because,
    run_row,
    starred,
    tags_of,
)
from tests.support import eventually, make_plan
from tests.terminal import headless
from tests.ui.conftest import Show

HOUR = 3600


def output_of(name: str) -> str:
    """What a run of that name has written."""
    return f"the log of {name}"


def ended(home: StateDirectory, name: str, age_s: float, now: float, **fields: object) -> str:
    """A run that has ended, as its supervisor leaves it."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(now - age_s))
    run_id = f"{moment}-{name}-7f3a"
    directory = home.run(run_id)
    directory.path.mkdir(parents=True)
    origin = {"user": "anna", "host": host_name(), "boot_id": "b", "created": now - age_s}
    plan = msgspec.to_builtins(
        make_plan(
            run_id, name=name, argv=("python", "train.py", name, "--hour", f"{age_s / HOUR:g}")
        )
    )
    replace(directory.plan, msgspec.json.encode({**plan, "origin": origin}))
    record = {"state": "done", "started": now - age_s, "ended": now - age_s + 60, "exit_code": 0}
    replace(directory.state, msgspec.json.encode({**record, **fields}))
    loss = {"last": age_s / 1e5, "step": 9, "count": 9, "best": age_s / 2e5, "best_step": 7}
    final = {"ended": record["ended"], "progress": {"fraction": 1.0}, "metrics": {"loss": loss}}
    content = msgspec.json.encode({**final, "headline": "loss"})
    replace(directory.path / "final.json", content)
    directory.output.write_text(f"{output_of(name)}\n")
    return run_id


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    now = time.time()
    state = StateDirectory().create()
    for i in range(130):
        ended(state, f"old-{i:03}", (i + 2) * HOUR, now)
    words = {
        "state": "failed",
        "exit_code": 1,
        "ending": {"cause": "failed", "summary": "RuntimeError: no space left"},
    }
    ended(state, "broken", HOUR, now, **words)
    return state


@pytest.fixture
def show(show: Show, state: StateDirectory) -> Show:
    return show


def test_every_run_is_reached_found_and_sorted_on_the_smallest_screen(show: Show) -> None:
    launched = headless("launch", "--gpus", "0", "--name", "alive", "--", "sleep", "600")
    assert launched.returncode == 0, launched.stderr
    panel = show()
    panel.wait_for(HEADINGS)
    panel.wait_for(first_row(run_row(State.RUNNING, "alive", letter="A")))
    panel.wait_for(log_of("alive"))
    panel.wait_for(run_row(State.FAILED, "broken +RuntimeError: no"))
    panel.wait_for(in_all(132, running=1))
    panel.press("End")
    panel.wait_for(log_of("old-129"))
    panel.wait_for(output_of("old-129"))

    panel.press("/state:failed")
    panel.wait_for(f"{FINDING} state:failed▏")
    panel.wait_for(found_of(1, 132))
    panel.wait_for(log_of("broken"))
    panel.press("Escape")
    panel.wait_for(log_of("old-129"))
    panel.press("/old loss<1", "Enter", "Home")
    panel.wait_for(found_of(26, 132))
    panel.press("/")
    panel.wait_for(f"{FINDING} ▏")
    panel.press("Up")
    panel.wait_for(f"{FINDING} old loss<1▏")
    panel.wait_for(found_of(26, 132))
    panel.press("Up", "Down", "Down")
    panel.wait_for(f"{FINDING} ▏")
    panel.press("Escape")
    panel.wait_gone(FINDING)
    panel.press("/old los<1")
    panel.wait_for(f"{NO_METRIC} `los`")
    panel.press("Escape")
    panel.wait_gone(NO_METRIC)

    panel.press("<", "<")
    panel.wait_for(r"loss▲")
    panel.press("Home")
    panel.wait_for(
        "(?s)" + ".*".join(["loss▲", run_row(State.FAILED, "broken"), "old-000", "old-001"])
    )
    panel.press("o", "Home")
    panel.wait_for(r"(?s)loss▼.*old-129.*old-128")


def test_a_run_that_was_found_stays_chosen_and_in_sight(show: Show) -> None:
    panel = show()
    panel.wait_for(in_all(131))
    panel.press("/old-077", "Enter")
    panel.wait_for(log_of("old-077"))
    panel.wait_for(found_of(1, 131))
    panel.press("Escape")
    panel.wait_gone(FINDING)
    panel.wait_for(run_row(State.DONE, "old-077"))
    panel.wait_for(log_of("old-077"))
    panel.press("<", "<", "o")
    panel.wait_for(r"loss▼")
    panel.wait_for(run_row(State.DONE, "old-077"))
    panel.wait_for(log_of("old-077"))
    # On the way to a filter that is wrong, or finds it again, other runs stood first.
    panel.press("/b")
    panel.wait_for(log_of("broken"))
    panel.press("\x7fstat:done", "Enter")
    panel.wait_for(did_you_mean("state:"))
    panel.wait_for(run_row(State.DONE, "old-077"))
    panel.wait_for(log_of("old-077"))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
def test_a_reason_that_is_cut_stands_whole_below_the_table(
    show: Show, state: StateDirectory, columns: int, rows: int
) -> None:
    reason = "FileNotFoundError: " + "/data/".join(f"part{i}" for i in range(9)) + "/the-end"
    ending = {"cause": "failed", "summary": reason}
    ended(state, "cut", 60, time.time(), state="failed", exit_code=1, ending=ending)
    panel = show(columns=columns, rows=rows)
    panel.wait_for(log_of("cut"))
    panel.wait_for("the-end")
    panel.press("j")
    panel.wait_for(log_of("broken"))
    panel.wait_gone("the-end")
    panel.press("/stat:failed")
    panel.wait_for(did_you_mean("state:"))


def test_an_order_is_chosen_from_a_list_and_a_view_saved_under_a_key(show: Show) -> None:
    panel = show(columns=80, rows=24)
    panel.wait_for(in_all(131))
    panel.press("j", "O")
    panel.wait_for(SORT)
    panel.wait_for(field("last", "loss"))
    panel.press("End", " ")
    panel.wait_for("● set:hour")
    panel.press("Up", "Enter")
    panel.wait_gone(SORT)
    panel.wait_for("state .* hour")
    panel.wait_for(run_row(State.DONE, "old-000 +2 "))
    panel.wait_for(r"by best:loss▲")
    panel.wait_for(log_of("old-000"))
    panel.press("O", "Enter")
    panel.wait_for(r"by best:loss▼")
    panel.press("/old-12", "Enter")
    panel.wait_for(found_of(10, 131))
    panel.press("V", "s", "worst", "Enter")
    panel.wait_for("1 worst +old-12 +best:loss- +set:hour")
    panel.press("Escape", "Escape", "Escape")
    panel.wait_gone(FINDING)
    panel.wait_gone("by best:loss")
    panel.press("q")
    panel.wait_end()
    again = show()
    again.wait_for(in_all(131))
    again.press("V", "1")
    again.wait_for(found_of(10, 131))
    again.wait_for("by best:loss▼ .*old-12")
    again.wait_for(run_row(State.DONE, "old-129 +131 "))


def test_the_split_is_moved_by_keys_and_remembered(show: Show) -> None:
    panel = show(columns=120, rows=40)
    panel.wait_for(in_all(131))
    before = upper_rows(panel.text)
    panel.press("Ctrl+Down", "Ctrl+Down", "Ctrl+Left")
    eventually(lambda: panel.read() or upper_rows(panel.text) == before + 4)
    eventually(lambda: panel.read() or gpu_columns(panel.text) < 120 * 0.4 - 3)
    gpus = gpu_columns(panel.text)
    panel.press("q")
    panel.wait_end()
    again = show(columns=120, rows=40)
    again.wait_for(in_all(131))
    eventually(lambda: again.read() or upper_rows(again.text) == before + 4)
    eventually(lambda: again.read() or gpu_columns(again.text) == gpus)


def test_a_phone_s_terminal_has_the_loss_and_how_to_stop(show: Show) -> None:
    panel = show(columns=60, rows=20)
    panel.wait_for(r"state +name +prog +\w*loss")
    panel.wait_for(rf"{FOOTER} +s Stop .*q Quit")
    panel.press("Ctrl+Left")
    panel.wait_for(NO_FURTHER)


def gpu_columns(text: str) -> int:
    """Where the GPUs' border ends."""
    return text.splitlines()[1].index("╮")


def upper_rows(text: str) -> int:
    """Where the log begins."""
    return [line.startswith("╭") for line in text.splitlines()].index(True, 2)


def test_details_labels_deletion_and_undo(show: Show, state: StateDirectory) -> None:
    panel = show(columns=120, rows=40)
    panel.wait_for(run_row(State.FAILED, "broken"))
    panel.wait_for(in_all(131))
    panel.press("Enter")
    panel.wait_for(field("command", r"python train\.py broken"))
    panel.wait_for(field("by", r"anna on \S"))
    panel.wait_for(field("reason", r"RuntimeError: no space left"))
    panel.press("Escape")
    panel.wait_gone(field("by", r"anna on"))

    panel.press("t")
    panel.wait_for(tags_of("broken"))
    panel.press("good", "Enter")
    panel.wait_for(r"tags of broken: \+good")
    panel.press("*")
    panel.wait_for(starred("broken"))
    panel.press("/tag:good", "Enter")
    panel.wait_for(found_of(1, 131))
    panel.press("Escape")
    panel.wait_gone(FINDING)

    panel.press("Home", "j", "  ")
    panel.wait_for(marked(2))
    panel.press("x")
    panel.wait_for(deletion(2))
    panel.press("y")
    panel.wait_for(in_all(129))
    assert "old-000" not in panel.text.split("output.log")[0]
    panel.press("u")
    panel.wait_for(in_all(131))
    panel.wait_for(brought_back(2))
    panel.wait_for("old-000")
    found = json.loads(headless("list", "tag:good", "--json").stdout)
    assert [(run["name"], run["starred"]) for run in found] == [("broken", True)]


def test_a_queued_run_says_why_it_waits_where_its_log_will_be(show: Show) -> None:
    for name in ("holder", "waiter"):
        done = headless(
            *("launch", "--gpu-ids", "0", "--name", name, "--", "sleep", "600"),
        )
        assert done.returncode == 0, done.stderr
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "holder"))
    panel.wait_for(run_row(State.QUEUED, "waiter +#1: GPU 0 held"))
    panel.press("j")
    panel.wait_for(queued_because(held_by(0, "holder ")))
    panel.wait_for(queue_place(1, 1))
    panel.wait_for(r"holder: GPU 0, runs for")


def test_letters_are_the_same_in_the_next_panel(show: Show, state: StateDirectory) -> None:
    for name in ("first", "second"):
        done = headless(
            *("launch", "--gpus", "1", "--name", name, "--", "sleep", "600"),
        )
        assert done.returncode == 0, done.stderr
    panel = show()
    panel.wait_for(run_row(State.RUNNING, "second", letter="B"))
    panel.wait_for(gpu_row(1, r"B:0"))
    headless("stop", "first", "--force", "--wait")
    panel.wait_gone(run_row(State.RUNNING, "first", letter="A"))
    panel.press("q")
    panel.wait_end()
    again = show()
    again.wait_for(run_row(State.RUNNING, "second", letter="B"))
    eventually(lambda: "A ▶" not in again.text)
