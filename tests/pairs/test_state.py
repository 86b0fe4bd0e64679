"""State, reason, labels and exit code of a run: every surface says what the run directory says."""

from hypothesis import given, settings

from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all


@settings(max_examples=60, deadline=None)
@given(host=hosts())
def test_state_and_reason_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            assert run.state is world.drawn(run.id, host).state
            found = ask_all(world, run)
            assert found.json["state"] == run.state
            assert {row.state for row in found.rows.values()} == {run.state}
            assert {row.exit_code for row in found.rows.values()} == {found.json["exit_code"]}
            assert found.status["state"] == found.details["state"]
            assert found.status["state"].startswith(f"{run.state.sign} {run.state}")


@settings(max_examples=40, deadline=None)
@given(host=hosts())
def test_labels_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told = found.json
            labels = (told["name"], tuple(told["tags"]), told["note"] or "", told["starred"])
            for surface, row in found.rows.items():
                assert (row.name, row.tags, row.note, row.starred) == labels, surface
            assert found.status["name"] == found.details["name"]
