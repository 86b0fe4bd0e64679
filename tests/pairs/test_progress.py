"""Progress and metrics of a run: rows, JSON, texts and the link give the same numbers."""

import pytest
from hypothesis import given, settings

from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all

LIVE = ("epoch", "epochs", "step", "steps", "fraction", "eta_s", "rate", "phase")
ENDED = ("epoch", "epochs", "step", "steps", "fraction")
NOT_TOLD_OVER_A_LINK = ("step", "steps", "rate")


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_progress_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told = found.json["progress"]
            for surface, row in found.rows.items():
                names = set(LIVE if run.is_live else ENDED)
                names -= set(NOT_TOLD_OVER_A_LINK if surface == "link" else ())
                for name in names:
                    assert _agree(getattr(row, name), told[name]), (surface, name)


def _agree(shown: float | str | None, told: float | str | None) -> bool:
    """Whether two values are one; a phase that is not known is no text."""
    if isinstance(shown, (int, float)) and isinstance(told, (int, float)):
        return shown == pytest.approx(told, rel=0.01, abs=5.0 if told > 60 else 0.001)
    return (shown or None) == (told or None)


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_last_and_best_values_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            best = {name: told["value"] for name, told in found.json["best"].items()}
            for surface, row in found.rows.items():
                if row.headline is None:
                    assert row.last is None and row.best is None, surface
                    continue
                assert row.last == found.json["metrics"].get(row.headline), surface
                assert row.best == best.get(row.headline), surface
                assert row.headline == found.view.headline, surface
            for surface in ("panel", "list"):
                kept = found.rows[surface].metrics if surface in found.rows else {}
                for name, (last, most, _) in kept.items():
                    assert (last, most) == (found.json["metrics"][name], best.get(name)), surface
