"""Older runs of a rented machine beside its snapshots, without the machine."""

from typing import Any

from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.older import OlderRuns
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.remote_request import AgentQuestion
from runners.places.ssh.snapshot_updates import row_to_tree
from tests.unit.test_run_query import row


class Line:
    """A link that keeps what is asked."""

    def __init__(self) -> None:
        self.asked: dict[int, AgentQuestion] = {}

    def subscribe(self, subscription: AgentQuestion) -> int:
        """Take it down."""
        self.asked[len(self.asked)] = subscription
        return len(self.asked) - 1

    def cancel(self, number: int) -> None:
        """Nothing to do."""

    def answer(self, *ids: str, left: int | None = None) -> None:
        """Answer the newest question."""
        runs = [row_to_tree(_run(one)) for one in ids]
        fields: dict[str, Any] = {"answer": {"runs": runs, "left": left}}
        list(self.asked.values())[-1].take(LinkMessage(fields))


def _id(number: int) -> str:
    return f"20261122-10000{number}-run-0000"


def _run(run_id: str) -> RunRow:
    return row(run_id, id=run_id)


def _snapshot(*ids: str, hidden: int) -> PlaceSnapshot:
    return PlaceSnapshot(runs={one: _run(one) for one in ids}, hidden=hidden)


def test_pages_go_on_where_the_one_before_ended() -> None:
    line = Line()
    older = OlderRuns(line, lambda: None)
    snapshot = _snapshot(_id(9), _id(8), hidden=5)
    older.load(snapshot)
    older.load(snapshot)
    assert [one.request()["before"] for one in line.asked.values()] == [_id(8)]
    line.answer(_id(7), _id(6), left=3)
    assert older.hidden(snapshot) == 3
    older.load(snapshot)
    assert line.asked[1].request()["before"] == _id(6)
    line.answer(_id(5), left=0)
    assert older.hidden(snapshot) == 0
    assert list(older.runs) == [_id(7), _id(6), _id(5)]


def test_what_a_snapshot_no_longer_tells_of_stays_unless_it_was_deleted() -> None:
    line = Line()
    older = OlderRuns(line, lambda: None)
    first = _snapshot(_id(9), _id(8), _id(7), hidden=2)
    older.load(first)
    line.answer(_id(6), left=1)
    second = _snapshot("b", "a", _id(8), hidden=3)  # 9 was deleted, 7 is too old now
    older.follow(first, second)
    assert list(older.runs) == [_id(7), _id(6)]
    assert older.hidden(second) == 1
    third = _snapshot("e", "d", "c", hidden=9)
    older.follow(second, third)
    assert not older.runs, "what ended between them is not known"
    assert older.hidden(third) == 9


def test_what_was_done_to_older_runs_is_seen() -> None:
    line = Line()
    older = OlderRuns(line, lambda: None)
    older.load(_snapshot(_id(9), hidden=2))
    line.answer(_id(8), _id(7), left=0)
    older.renew(["delete", _id(9)])
    assert len(line.asked) == 1
    older.renew(["delete", _id(8), _id(7)])
    assert line.asked[1].request()["ids"] == [_id(8), _id(7)]
    line.answer(_id(7))
    assert list(older.runs) == [_id(7)]


def test_a_refusal_is_told_and_asked_again() -> None:
    line = Line()
    older = OlderRuns(line, lambda: None)
    snapshot = _snapshot(_id(9), hidden=2)
    older.load(snapshot)
    line.asked[0].take(LinkMessage({"error": "this agent does not know `older`"}))
    assert "does not know" in older.problem
    older.load(snapshot)
    assert len(line.asked) == 2
