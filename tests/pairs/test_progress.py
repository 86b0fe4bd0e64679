"""Progress and metrics of a run: rows, JSON, texts and the link give the same numbers."""

import pytest
from hypothesis import given, settings

from runners.places.ssh.thinning import DIGITS, ETA_S, digits
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all

LIVE = ("epoch", "epochs", "step", "steps", "fraction", "eta_s", "rate", "phase")
ENDED = ("epoch", "epochs", "step", "steps", "fraction")


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_progress_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told = found.json["progress"]
            for surface, row in found.rows.items():
                for name in LIVE if run.is_live else ENDED:
                    step = ETA_S if (surface, name) == ("link", "eta_s") else 0.0
                    assert _agree(getattr(row, name), told[name], step), (surface, name)


def _agree(shown: float | str | None, told: float | str | None, step: float) -> bool:
    """Whether two values are one, rounded to a step; a phase that is not known is no text."""
    if isinstance(shown, (int, float)) and isinstance(told, (int, float)):
        return shown == pytest.approx(told, rel=0.01, abs=max(0.001, step / 2 + 0.001))
    return (shown or None) == (told or None)


def _same(surface: str, shown: float | None, told: float | None) -> bool:
    """Whether two values are one: over a link they have so many digits as it sends."""
    if surface == "link":
        told = digits(told, DIGITS)
    return shown == told or (shown is not None and repr(shown) == repr(told) == "nan")


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_last_and_best_values_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            odd = {name: float(value) for name, value in found.json["not_finite"].items()}
            metrics = {**found.json["metrics"], **odd}
            best = {name: told["value"] for name, told in found.json["best"].items()}
            for surface, row in found.rows.items():
                if row.headline is None:
                    assert row.last is None and row.best is None, surface
                    continue
                assert _same(surface, row.last, metrics.get(row.headline)), surface
                assert _same(surface, row.best, best.get(row.headline)), surface
                assert row.headline == found.view.headline, surface
                for name, (last, most, _) in row.metrics.items():
                    assert _same(surface, last, metrics[name]), surface
                    assert _same(surface, most, best.get(name)), surface
