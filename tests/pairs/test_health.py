"""How a run does: row, JSON and texts give one judgement, and none where nobody has judged it."""

from hypothesis import given, settings

from runners.model.health import Condition
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_health_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told = found.json["health"]
            condition = None if told is None else Condition(told["condition"])
            troubled = condition is not None and condition.is_trouble
            assert found.status.get("doing") == found.details.get("doing")
            assert ("doing" in found.status) == (condition is not None)
            if troubled:
                assert str(condition) in found.status["doing"]
            for surface, row in found.rows.items():
                named = condition is not None and str(condition) in row.remark
                assert (named and row.urgent) if troubled else not named, surface
