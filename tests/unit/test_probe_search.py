"""Doubling, then bisecting: every edge is found, in few trials, each once."""

import pytest

from runners.lifecycle.launch.probe_results import ProbeStep, settings_of
from runners.presets.load import load_preset
from runners.probe.largest_batch import FINENESS, largest, next_batch
from runners.state.layout import SHIPPED_PRESETS


def found(edge: int, first: int, unit: int = 1, most: int | None = None) -> tuple[int, list[int]]:
    """The largest batch that the search finds where `edge` is the largest that fits."""
    steps: list[ProbeStep] = []
    while (batch := next_batch(steps, first, unit, most)) is not None:
        assert batch not in [step.batch for step in steps] and batch % unit == 0 and batch > 0
        assert most is None or batch <= most
        steps.append(ProbeStep(batch, batch <= edge))
        assert len(steps) < 40
    best = largest(steps)
    return (0 if best is None else best.batch), [step.batch for step in steps]


@pytest.mark.parametrize("first", [1, 2, 7, 64])
@pytest.mark.parametrize("edge", [1, 2, 3, 15, 16, 17, 100, 999])
def test_the_edge_is_found_as_finely_as_it_is_worth(edge: int, first: int) -> None:
    batch, tried = found(edge, first)
    assert edge - max(1, batch // FINENESS) < batch <= edge
    assert len(tried) <= 16


def test_a_batch_of_several_devices_stays_a_multiple() -> None:
    batch, tried = found(100, 7, unit=7)
    assert batch == 98 and all(one % 7 == 0 for one in tried)
    assert found(5, 14, unit=7) == (0, [14, 7])


def test_nothing_above_the_most_is_tried() -> None:
    assert found(1000, 4, most=20) == (20, [4, 8, 16, 20])
    assert found(1000, 4, most=4) == (4, [4])


def test_a_probe_s_result_holds_whatever_the_length() -> None:
    spec = load_preset(SHIPPED_PRESETS / "cascade-dev.yaml", ["epochs=3", "max_patients=5"])
    assert settings_of(spec, "batch_size") == {"max_patients": "5"}
