"""What is said of a run that goes on: by its checkpoint, the new plan, and its parent's pace."""

import json
from pathlib import Path

import msgspec
import pytest

from runners.model.course import Total
from runners.model.run import Checkpoint
from runners.model.spec import Parameter, Price
from runners.model.states import State
from tests.support import make_run
from tui.views.runs.resume_text import resumed_text


@pytest.mark.parametrize(("epochs", "left", "time"), [(3, 2, "20m"), (9, 8, "1h20m")])
def test_time_and_money_are_those_of_the_epochs_that_are_left_of_the_new_plan(
    epochs: int, left: int, time: str, tmp_path: Path
) -> None:
    """Failed in its third epoch of 10 minutes, at $6 an hour; its checkpoint is of the first."""
    events: list[dict[str, object]] = [{"time": 1000.0, "type": "start", "epochs": 3}]
    events += [{"time": 1000.0 + 600 * i, "type": "epoch", "epoch": i} for i in (1, 2)]
    path = str(tmp_path / "epoch_1.pt")
    events.append({"time": 1601.0, "type": "checkpoint", "epoch": 1, "path": path})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    price = Price("6", "gpu", "flag")
    parent = make_run(State.FAILED, price, 1, ended=2500.0, directory=str(tmp_path))
    assert parent.plan is not None
    spec = msgspec.structs.replace(
        parent.plan.spec,
        total=Total(parameter="epochs"),
        parameters=(Parameter("epochs", epochs, 3, "int", "--epochs"),),
    )
    checkpoint = Checkpoint(path, 7, 1600.0)
    text = resumed_text(parent, checkpoint, spec, now=2500.0)
    dollars = f"${left:.2f}"
    assert text.startswith(f"epoch 1 of {epochs}; {left} epochs left, about {time}")
    assert dollars in text.split(";")[1]


def test_a_program_of_two_stages_has_twice_the_epochs_that_its_parameter_says(
    tmp_path: Path,
) -> None:
    events: list[dict[str, object]] = [{"time": 1000.0, "type": "start", "epochs": 6}]
    events += [{"time": 1000.0 + 60 * i, "type": "epoch", "epoch": i} for i in (1, 2, 3, 4)]
    path = str(tmp_path / "epoch_4.pt")
    events.append({"time": 1241.0, "type": "checkpoint", "epoch": 4, "path": path})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    parent = make_run(State.STOPPED, None, 1, ended=2500.0, directory=str(tmp_path))
    assert parent.plan is not None
    of_each = Parameter("epochs", 3, 3, "int", "--epochs")
    spec = msgspec.structs.replace(
        parent.plan.spec, total=Total(parameter="epochs"), parameters=(of_each,)
    )
    plan = msgspec.structs.replace(parent.plan, spec=spec)
    parent = msgspec.structs.replace(parent, plan=plan)
    longer = msgspec.structs.replace(of_each, value=5)
    for asked, left in ((of_each, 2), (longer, 6)):
        coming = msgspec.structs.replace(spec, parameters=(asked,))
        text = resumed_text(parent, Checkpoint(path, 7, 1240.0), coming, now=2500.0)
        assert text.startswith(f"epoch 4 of {4 + left}; {left} epochs left")
