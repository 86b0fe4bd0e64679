"""In which order the form lists what can be launched."""

from pathlib import Path

import msgspec
import pytest

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.run import Progress, Run
from runners.model.states import State
from tests.support import make_plan, make_run
from tui.views.runs.launch_choices import read_choices
from tui.views.runs.run_view import RunView


def _view(preset: str, created: float) -> RunView:
    run: Run = make_run(State.DONE, ended=created + 1)
    run = msgspec.structs.replace(
        run, preset=preset, created=created, plan=make_plan(preset=preset, name=preset)
    )
    return RunView(
        run=run,
        progress=Progress(),
        metrics={},
        summary={},
        trend=(),
        checkpoint=None,
        images=(),
        seconds=1.0,
        usage=(),
        epoch_s=None,
    )


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """The folder of the user's own presets."""
    folder = tmp_path / "config" / "fresnel-tui" / "presets"
    folder.mkdir(parents=True)
    return folder


def test_what_ran_last_comes_first_then_own_presets_then_quick_ones(presets: Path) -> None:
    for name in ("mm-mine", "yy-mine", "zz-mine"):
        text = "launcher: command\ncommand: [sleep, '1']\ngpus: 0\n"
        (presets / f"{name}.yaml").write_text(text)
    (presets / "aa-broken.yaml").write_text("launcher: nothing-known\n")
    choices = read_choices(None, [])
    never = [choice.entry.name for choice in choices]
    assert never[:3] == ["mm-mine", "yy-mine", "zz-mine"] and never[-1] == "aa-broken"
    # Without the trainers' packages some of the shipped ones cannot run, and stand behind.
    shipped = [choice for choice in choices[3:-1] if choice.can_run]
    names = [choice.entry.name for choice in shipped]
    quick = [name for name in names if name.endswith("-tiny") or name == "example"]
    assert quick and names[: len(quick)] == quick
    ran = [_view("yy-mine", 2000.0), _view("zz-mine", 3000.0)]
    names = [choice.entry.name for choice in read_choices(None, ran)]
    assert names[:3] == ["zz-mine", "yy-mine", "mm-mine"]


def test_what_cannot_run_on_these_gpus_stands_behind_all_that_can(presets: Path) -> None:
    (presets / "zz-none.yaml").write_text(
        "launcher: command\ncommand: [sleep, '1']\ngpus: {count: 64}\n"
    )
    (presets / "aa-broken.yaml").write_text("launcher: nothing-known\n")
    gpu = GpuSnapshot(index=0, uuid="GPU-0", vendor="nvidia", name="H100")
    reading = GpuReading(time=0.0, host="here", backend="nvml", gpus=(gpu,))
    choices = read_choices(reading, [_view("zz-none", 2000.0)])
    can = [choice.can_run for choice in choices]
    assert can == sorted(can, reverse=True)
    obstacle = {choice.entry.name: choice.obstacle for choice in choices}
    assert obstacle["zz-none"]
    assert choices[-1].entry.name == "aa-broken"
