"""How a run without exit status is recorded: by what its program left, never a guess."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from runners.model.endings import EndingCause
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.vanished import vanished_ending

LEADER = 4711


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = StateDirectory(tmp_path).run("20261120-101500-demo-7f3a")
    directory.path.mkdir(parents=True)
    directory.leader.write_text(f"{LEADER}\n")
    return directory


def announce(run: RunDirectory, **changes: Any) -> None:
    event = {"time": time.time() + 1, "type": "end", "code": 0, "pid": LEADER, **changes}
    run.events.write_text(json.dumps({"time": 1.0, "type": "start"}) + "\n" + json.dumps(event))


@pytest.mark.parametrize(("code", "state"), [(0, State.DONE), (3, State.FAILED)])
def test_what_the_program_announced_counts_first(
    run: RunDirectory, code: int, state: State
) -> None:
    announce(run, code=code)
    run.output.write_text("epoch 3\n")
    found, ending = vanished_ending(run)
    assert (found, ending["announced"]) == (state, code)


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": LEADER + 1},  # one of several programs below a shell
        {"time": 1.0},  # of the attempt before
        {"type": "epoch"},
        {"code": None},
        {"code": True},
        {"code": 1 << 40},
        {"time": "now"},
    ],
)
def test_any_other_event_announces_nothing(run: RunDirectory, changes: dict[str, Any]) -> None:
    announce(run, **changes)
    run.output.write_text("epoch 3\n")
    assert vanished_ending(run) == (
        State.UNSEEN,
        {"cause": EndingCause.UNSEEN, "line": "epoch 3"},
    )


def test_an_event_after_it_means_that_it_went_on(run: RunDirectory) -> None:
    announce(run)
    with run.events.open("a") as file:
        file.write("\n" + json.dumps({"time": time.time() + 2, "type": "metrics"}) + "\n")
    assert vanished_ending(run)[0] is State.LOST


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (b"one\ntwo\n\n", "two"),
        (b"10%\r20%\r\x1b[2K\n", "20%"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07\xff\n", "red �"),
        (b"x" * 1000, "x" * 199 + "…"),
        (b"token=hf_abcdefghijklmnopqrstuvwxyz0123456789\n", "token=********"),
        (b"no data\nmake[1]: *** [Makefile:3: all] Error 1\nmake: *** [all] Error 2\n", "no data"),
        (b"no data\n\n=========\n  ---\n", "no data"),
        (b"no data\nERROR conda.cli.main_run:execute(49): `conda run x` failed.\n", "no data"),
        (b"make: *** No rule to make 'x'.\n", "make: *** No rule to make 'x'."),
        (b"====\n", "===="),
    ],
)
def test_the_last_line_is_quoted_safely(run: RunDirectory, output: bytes, line: str) -> None:
    run.output.write_bytes(output)
    state, ending = vanished_ending(run)
    assert (state, ending["line"]) == (State.UNSEEN, line)


def test_what_left_nothing_is_lost(run: RunDirectory) -> None:
    run.output.write_bytes(b"\n \r\n")
    assert vanished_ending(run) == (State.LOST, {"cause": EndingCause.UNKNOWN})


def test_a_fifo_for_a_file_blocks_nobody(run: RunDirectory) -> None:
    os.mkfifo(run.events)
    os.mkfifo(run.output)
    assert vanished_ending(run)[0] is State.LOST


def test_a_stop_that_was_asked_for_is_no_loss(run: RunDirectory) -> None:
    run.stop.write_text(json.dumps({"time": 1.0, "by": "anna", "ending": {"cause": "guard"}}))
    state, ending = vanished_ending(run)
    assert (state, ending["cause"], ending["by"]) == (State.STOPPED, EndingCause.GUARD, "anna")
