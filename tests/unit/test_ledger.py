"""The ledger's newest lines, read from its end back: what a list of runs needs of a long one."""

from pathlib import Path

import msgspec
import pytest

from runners.cost.ledger import Ledger, RunEntry
from runners.cost.sessions import Session, SessionLine
from runners.host.clock import Moment
from runners.model.spec import Price
from runners.state.layout import StateDirectory

_DAY_S = 86_400.0


def _run(number: int, name: str = "r") -> RunEntry:
    ended = Moment(number * _DAY_S)
    began = Moment(ended.wall - 60)
    return RunEntry(f"{number:04}", "here", "p", name, "done", (), None, began, ended)


def _session(number: int, budget: str) -> SessionLine:
    start, price = number * _DAY_S, Price("2", "gpu", "session")
    return SessionLine(
        Session(start, "here", price, budget=budget, ended=start + 60, id=str(number))
    )


def _write(state: StateDirectory, *more: bytes) -> None:
    """A thousand runs with a session a hundred, each of which changes once."""
    lines: list[RunEntry | SessionLine] = []
    for number in range(1000):
        lines.append(_run(number))
        if number % 100 == 0:
            lines += _session(number, "1"), _session(number, "2")
    state.ledger.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    with state.ledger.open("ab") as file:
        file.write(b"".join(more))


@pytest.mark.parametrize("since", [0.0, 500.0, 930.0, 999.0, 2000.0])
def test_the_newest_runs_and_every_session_are_read_from_the_end_back(
    tmp_path: Path, since: float
) -> None:
    state = StateDirectory(tmp_path)
    again = msgspec.json.encode(_run(998, "named again")) + b"\n"
    # One damaged line that is longer than what is read at a time, and one half written.
    _write(state, again, b"x" * 200_000 + b"\n", msgspec.json.encode(_run(1001))[:40])
    whole, newest = Ledger(state), Ledger(state, since * _DAY_S)
    assert whole.poll() and newest.poll() and not newest.poll()
    assert newest.sessions("here") == whole.sessions("here")
    assert [session.budget for session in newest.sessions("here")] == ["2"] * 10
    assert newest.runs == {run: whole.runs[run] for run in newest.runs}
    assert {f"{number:04}" for number in range(int(since) + 1, 1000)} <= newest.runs.keys()
    assert len(newest.runs) < 1000 or since < 500, "a long history is not decoded"
    assert newest.runs["0998"].name == "named again", "the last line counts"
    with state.ledger.open("ab") as file:
        file.write(msgspec.json.encode(_run(1001))[40:] + b"\n")
    assert newest.poll() and whole.poll()
    assert newest.runs["1001"] == whole.runs["1001"] == _run(1001)
    assert newest.damaged == whole.damaged == 1


@pytest.mark.parametrize("before", [b"", b"\n", b"{}\n"])
def test_a_last_line_without_an_end_waits_for_it_however_long_it_is(
    tmp_path: Path, before: bytes
) -> None:
    state = StateDirectory(tmp_path)
    line = msgspec.json.encode(_run(1, "long" * 50_000))
    state.ledger.write_bytes(before + line[:150_000])
    ledger = Ledger(state, 1e9)
    assert ledger.poll() and not ledger.runs
    with state.ledger.open("ab") as file:
        file.write(line[150_000:] + b"\n" + msgspec.json.encode(_run(2)) + b"\n")
    assert ledger.poll() and sorted(ledger.runs) == ["0001", "0002"]
    assert ledger.damaged == before.count(b"{")
