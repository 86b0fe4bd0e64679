"""How a run does: row, JSON and texts give one judgement, and none of a run that does not run."""

from hypothesis import given, settings

from runners.model.health import Condition
from runners.model.states import State
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_health_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told, health = found.json["health"], found.view.health
            assert (health is not None) == (run.state is State.RUNNING) == (told is not None)
            assert found.status.get("doing") == found.details.get("doing")
            assert found.rows["panel"].doing is (health.condition if health else None)
            if health is None or told is None:
                assert "doing" not in found.status
                continue
            assert health.condition is Condition(told["condition"])
            assert found.status["doing"].removeprefix("⚠ ") in (health.sentence, health.message)
            remark = health.sentence if health.condition.is_remarkable else ""
            for surface, row in found.rows.items():
                assert row.remark.removeprefix("⚠ ") == remark, surface
                assert row.urgent == health.condition.is_trouble, surface
