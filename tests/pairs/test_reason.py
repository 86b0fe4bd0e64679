"""Why a run ended: every surface says what its recorded ending says, and nothing of one that
nobody recorded.
"""

from hypothesis import given, settings

from runners.model.endings import ending_text
from runners.model.states import State
from runners.watch.metrics.final import never_finite
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all


@settings(max_examples=100, deadline=None)
@given(host=hosts(adoptable=False))
def test_why_it_ended_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            if run.is_live:
                continue
            found = ask_all(world, run)
            drawn = world.drawn(run.id, host)
            told = found.json["ending"]
            assert (told is None) == (drawn.ending is None)
            if told is not None and drawn.ending is not None:
                assert told["cause"] == drawn.ending["cause"]
                assert told["by"] == drawn.ending.get("by")
            reason = "" if drawn.ending is None else ending_text(drawn.ending, drawn.exit_code)
            assert (found.json["reason"] or "") == reason
            lost = never_finite(found.view.final, found.view.headline)
            shown = "; ".join(filter(None, (reason, lost))) if run.state is State.DONE else reason
            for surface, row in found.rows.items():
                assert row.remark.removeprefix("⚠ ") == shown, surface
                if run.state is State.DONE:
                    is_doubtful = bool(lost or "output shows" in reason or "left" in reason)
                    assert row.remark.startswith("⚠ ") == is_doubtful, surface
            for texts in (found.status, found.details):
                assert texts.get("reason", reason) == reason
            assert found.status.get("reason") == found.details.get("reason")
