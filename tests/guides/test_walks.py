"""Each guide from top to bottom, as its user does it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from runners.state.runs import list_run_ids
from tests.guides.conftest import GuideCommands, checkout
from tests.guides.walks import (
    checkpoint_fixes,
    cloud,
    distributed,
    multi_gpu,
    training_scripts,
)
from tests.guides.walks.steps import Walk, steps_of, takes_all
from tests.process.conftest import events

pytest.importorskip("torch")
for needed in ("skimage", "onnx"):
    pytest.importorskip(needed)
pytestmark = [pytest.mark.trainers, pytest.mark.timeout(1200)]

IMPLANT = ("pcdiff-implant", "sim:8xH100-80GB")
GUIDES = {
    training_scripts: IMPLANT,
    checkpoint_fixes: IMPLANT,
    distributed: IMPLANT,
    multi_gpu: ("hybrid-vit-cascade", "sim:4xA100-80GB"),
    cloud: ("fresnel", "sim:1xMI300X"),
}
"""In the order of the guides; those of one checkout have one state folder too."""
STEPS = {
    f"{guide.__name__.rpartition('.')[2]}-{step.name}": (place, step)
    for guide, place in GUIDES.items()
    for step in steps_of(guide)
}


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Walk]]:
    with ExitStack() as stack:
        made: dict[str, Walk] = {}

        def walk(name: str) -> Walk:
            place = STEPS[name][0]
            if place[0] not in made:
                enter = contextmanager(checkout)(tmp_path_factory, *place)
                guide = stack.enter_context(enter)
                stack.callback(check_alarms, guide)
                here = [step for where, step in STEPS.values() if where == place]
                made[place[0]] = Walk(guide, here)
            return made[place[0]]

        yield walk


def check_alarms(guide: GuideCommands) -> None:
    """No disk was about to be full: no run of a guide says so."""
    runs = [guide.state.run(run) for run in list_run_ids(guide.state)]
    alerts = [event for run in runs for event in events(run, "alert")]
    assert [alert for alert in alerts if "disk" in str(alert)] == []


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str, walks: Callable[[str], Walk]) -> None:
    step = STEPS[name][1]
    if step.is_long and not takes_all():
        pytest.skip("takes minutes: python -m tests.guides --walk")
    walks(name).take(step.name)
