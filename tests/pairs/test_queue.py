"""Why a run waits, and its place: JSON, rows, texts and `waits.json` give one answer."""

from hypothesis import given, settings

from runners.model.states import State
from runners.state.codec import read_waits
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all


@settings(max_examples=60, deadline=None)
@given(host=hosts())
def test_place_and_reason_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            if run.state is not State.QUEUED:
                assert found.json["queue_place"] is None
                continue
            waits = read_waits(world.state.run(run.id))
            assert waits is not None
            assert (found.json["queue_place"], found.json["reason"]) == (waits.place, waits.reason)
            assert {row.remark for row in found.rows.values()} == {
                f"#{waits.place}: {waits.reason}"
            }
            assert found.status["reason"] == waits.reason
