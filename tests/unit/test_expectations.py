"""What falls short of a preset's expectation is a line, once the run has settled."""

import json
from pathlib import Path

import msgspec
import pytest

from runners.model.gpus import GpuUse, HostSnapshot
from runners.model.run import Progress
from runners.model.spec import Expectation
from runners.model.states import State
from runners.watch.metrics.event_stream import EventStream
from tests.support import make_plan, make_run
from tui.views.machines.gpu_text import host_text
from tui.views.runs.run_text import progress_pairs
from tui.views.runs.run_view import RunView

GIB = 1 << 30
EXPECT = Expectation((60.0, 80.0), 40 * GIB, 10.0, 120.0, {"stage 3": Expectation(memory=70 * GIB)})


def view(expect: Expectation = EXPECT, seconds: float = 900.0, **changes: object) -> RunView:
    run = make_run(gpus=2)
    assert run.plan is not None
    plan = make_plan(gpus=run.plan.gpus, expect=expect)
    fields = {
        "run": msgspec.structs.replace(run, plan=plan),
        "progress": Progress(rate=30.0, rate_unit="samples"),
        "metrics": {},
        "summary": {},
        "trend": (),
        "checkpoint": None,
        "images": (),
        "seconds": seconds,
        "usage": use(30, 70.0),
        "epoch_s": 100.0,
    }
    return RunView(**(fields | changes))  # type: ignore[arg-type]


def use(peak: int, mean: float) -> tuple[GpuUse, ...]:
    return (GpuUse(0, "GPU-0", "H100", 0, peak_memory=peak * GIB, mean_utilization=mean),)


def test_what_is_as_expected_says_nothing() -> None:
    assert view().shortfalls == view(Expectation()).shortfalls == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"usage": use(30, 45.0)}, "GPU 0: mean use 45 %, expected 60–80 %"),
        ({"usage": use(50, 70.0)}, "GPU 0: peak VRAM 50.0 GiB, more than the 40.0 GiB expected"),
        ({"progress": Progress(rate=12.0, rate_unit="images")}, "6 images/s on each GPU, expected"),
        ({"epoch_s": 200.0}, "3m20s an epoch, expected 2m00s"),
    ],
)
def test_what_falls_short_is_a_line(changes: dict[str, object], said: str) -> None:
    (line,) = view(**changes).shortfalls
    assert said in line
    assert view(seconds=60.0, **changes).shortfalls == (), "it compiles and warms up"


def test_a_stage_told_by_events_is_shown_and_has_its_own_pace(tmp_path: Path) -> None:
    def line(epoch: int, at: float, stage: str) -> str:
        event = {"time": at, "type": "epoch", "epoch": epoch, "values": {}, "stage": stage}
        return json.dumps(event) + "\n"

    file = tmp_path / "events.jsonl"
    file.write_text(
        "".join(line(i, 100.0 * i, "stage 1/3") for i in range(1, 5))
        + "".join(line(4 + i, 400.0 + 900 * i, "stage 2/3") for i in range(1, 4))
    )
    stream = EventStream(file)
    stream.poll()
    assert stream.progress(4000.0).phase == "stage 2/3"
    timing = stream.epoch_clock.timing
    assert timing.of_stage.seconds_per_epoch == 900.0
    again = EventStream(file)
    again.read_on_from(stream.all_state())
    assert again.epoch_clock.timing == timing
    stages = {"stage 2": Expectation(epoch_s=480.0), "stage 1": Expectation(epoch_s=120.0)}
    found = view(
        Expectation((90.0, None), stages=stages),
        progress=Progress(phase="stage 2/3"),
        epoch_s=900.0,
        usage=use(30, 70.0),
    )
    assert any("15m00s an epoch, expected 8m00s" in text for text in found.shortfalls)
    assert ("phase", "stage 2/3") in progress_pairs(found)
    assert any("expected 90" in text for text in found.shortfalls), "use is the whole run's"


@pytest.mark.parametrize("rate", [199.0, 161.0])
def test_a_pace_a_little_below_is_no_shortfall(rate: float) -> None:
    expect = Expectation(samples_per_second_per_gpu=100.0)
    assert view(expect, progress=Progress(rate=rate, rate_unit="samples")).shortfalls == ()


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (80, "CPU ~30% of 64 · memory 25% of 200G · disk 76 GB free"),
        (40, "CPU ~30% · mem 25% · disk 76 GB"),
        (20, "CPU ~30% · mem 25%"),
        (10, "CPU ~30%"),
        (3, None),
    ],
)
def test_the_host_stands_beside_gpus_as_far_as_there_is_room(room: int, text: str | None) -> None:
    host = HostSnapshot(32.4, 64, 1.0, 50 * GIB, 200 * GIB, 76 * 10**9, 10**12)
    assert host_text(host, room) == text
    assert host_text(HostSnapshot(), room) is None


@pytest.mark.parametrize(
    ("state", "value", "said"),
    [
        (State.DONE, 0.23, "physics 0.23 in the end, expected below 0.1"),
        (State.DONE, float("nan"), "physics nan in the end, expected below 0.1"),
        (State.DONE, 0.09, ""),
        (State.RUNNING, 0.23, ""),
    ],
)
def test_a_metric_that_ends_above_its_mark_is_a_line(state: State, value: float, said: str) -> None:
    expect = Expectation(final_below={"physics": 0.1, "not_told": 1.0})
    found = view(expect, seconds=60.0, metrics={"physics": value})
    ended = msgspec.structs.replace(found, run=msgspec.structs.replace(found.run, state=state))
    assert ended.shortfalls == ((said,) if said else ())


def test_a_stage_has_expectations_of_its_own() -> None:
    changes = {"usage": use(60, 70.0), "progress": Progress(phase="training stage 3 of 3")}
    assert view(**changes).shortfalls == ()
    # What it does not say of itself is as in the whole run.
    (line,) = view(**(changes | {"usage": use(60, 10.0)})).shortfalls
    assert "mean use 10 %" in line
