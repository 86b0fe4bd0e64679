"""Series: what a rerun does to them, and thinning that keeps every spike."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.model.gpus import GpuInterval, UsageInterval
from runners.model.states import State
from runners.watch.metrics.progress import ProgressTracker, at_end
from runners.watch.metrics.run_metrics import GpuSource
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.series import Series, downsample
from runners.watch.metrics.series_set import SeriesSet
from tests.support import make_run
from tui.views.metrics.curves import Stretch, places
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext
from tui.views.runs.run_view import view_run


def steps_and_values(collection: SeriesSet, name: str) -> list[tuple[float, float]]:
    series = collection.series[name]
    return list(zip(series.steps, series.values, strict=True))


def test_a_later_attempt_wins_from_its_first_step_on() -> None:
    collection = SeriesSet("output")
    for step in range(1, 11):
        collection.note(Sample({"loss": 10.0 - step}, step))
        collection.note(Sample({"psnr": float(step)}, step))
    collection.begin_attempt()
    collection.note(Sample({"learning_rate": 0.1}))  # stands nowhere yet: it does not decide
    collection.note(Sample({"loss": 0.5}, 6))
    assert steps_and_values(collection, "loss") == [
        (1, 9),
        (2, 8),
        (3, 7),
        (4, 6),
        (5, 5),
        (6, 0.5),
    ]
    assert collection.series["psnr"].steps[-1] == 5, (
        "what the later attempt did not tell again is gone too"
    )


def test_steps_that_go_back_within_an_attempt_count_anew() -> None:
    series = Series("loss")
    for step, value in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 9.0), (2, 8.0)):
        series.add(step, value)
    assert (list(series.steps), list(series.values)) == ([1, 2], [1, 8])


def test_a_program_cannot_fill_the_memory_with_names() -> None:
    collection = SeriesSet("output")
    for i in range(1000):
        collection.note(Sample({f"m{i}": 1.0}, 1))
    assert len(collection.series) == 300 and collection.dropped


def test_thinning_keeps_the_spike() -> None:
    values = [1.0] * 100_000
    values[41_234], values[77_777], values[5] = 99.0, -99.0, math.nan
    kept = downsample(range(100_000), values, 200, 0, 99_999)
    assert len(kept) <= 800 and {41_234, 77_777, 0, 99_999} <= set(kept) and 5 not in kept


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(math.nan) | st.just(math.inf), max_size=300),
    st.integers(1, 20),
    st.integers(0, 300),
    st.integers(0, 300),
)
def test_thinning_keeps_the_extremes_of_any_part(
    values: list[float], buckets: int, low: int, high: int
) -> None:
    kept = downsample(range(len(values)), values, buckets, low, high)
    assert kept == sorted(set(kept)) and all(low <= i <= high for i in kept)
    inside = [value for i, value in enumerate(values) if low <= i <= high and math.isfinite(value)]
    if inside:
        shown = [values[i] for i in kept]
        assert (min(shown), max(shown)) == (min(inside), max(inside))
    assert len(kept) <= 4 * buckets


def test_the_eta_comes_from_the_run_s_own_pace_without_its_first_epoch() -> None:
    course = ProgressTracker()
    now = 1000.0
    for epoch, pace in ((3, 60.0), (4, 2.0), (5, 2.0)):  # resumed: its first epoch is the third
        for i in range(10):
            now += pace
            course.note(Sample({"loss": 1.0}, (epoch - 1) * 10 + i + 1, 100, epoch, 10, now))
    assert course.progress(now).eta_s == 50 * 2.0
    assert course.progress(now).rate == 0.5 and course.progress(now).rate_unit == "steps"


@pytest.mark.parametrize(
    ("state", "epochs", "fraction"),
    [(State.DONE, 1, 1.0), (State.STOPPED, 1, 0.0), (State.DONE, 3, None), (State.FAILED, 3, 0.0)],
)
def test_a_run_that_came_to_its_end_was_through_its_only_epoch(
    state: State, epochs: int, fraction: float | None
) -> None:
    course = ProgressTracker()
    course.note(Sample({"loss": 1.0}, epoch=1, epochs=epochs))
    assert at_end(course.progress(0.0), state).fraction == fraction


@pytest.mark.parametrize(("state", "shown"), [(State.DONE, "19/20"), (State.FAILED, "95%")])
def test_a_run_that_ended_well_does_not_look_unfinished(state: State, shown: str) -> None:
    """Its steps count from 0: the last that it printed was 19 of 20."""
    course = ProgressTracker()
    course.note(Sample({"loss": 1.0}, step=19, steps=20))
    progress = at_end(course.progress(0.0), state)
    assert (progress.step, progress.steps) == (19, 20)
    row = row_of_view(msgspec.structs.replace(view_run(make_run(state)), progress=progress))
    assert COLUMNS["progress"].text(row, TableContext(0.0), 8) == shown


def test_pauses_that_recur_are_part_of_the_time_left_and_none_of_the_pace() -> None:
    course, now = ProgressTracker(), 1000.0
    for step in range(1, 251):
        # After every 50 steps of a second, an evaluation of 20 s.
        now += 1.0 + (20.0 if step % 50 == 1 and step > 1 else 0.0)
        course.note(Sample({"loss": 1.0}, step, 500, time=now))
    assert course.pace() == 1.0
    least, most = 250 + 5 * 20, 250 + 6 * 20
    between = pytest.approx(math.sqrt(least * most))
    assert course.progress(now).eta_s == between, "whether one follows the last step is not known"


def test_a_step_that_is_longer_than_all_that_is_left_is_no_reason_to_hold_its_eta() -> None:
    """A line for every 2,048 timesteps: between two lines the time left falls all the same."""
    course = ProgressTracker()
    for rollout in range(1, 5):
        course.note(Sample({"loss": 1.0}, 2048 * rollout, 10_240, time=100.0 * rollout))
    found = [course.progress(400.0 + passed).eta_s for passed in (0, 50, 90)]
    assert found == pytest.approx([100, 50, 10])


@pytest.mark.parametrize(
    ("stated", "expected"),
    [((30, 20, 10), 10), ((30, 10, 1, 30, 20), None)],
)
def test_a_printed_time_left_that_begins_anew_is_not_that_of_the_run(
    stated: tuple[float, ...], expected: float | None
) -> None:
    course = ProgressTracker()
    for eta in stated:
        course.note(Sample({}, eta=eta, time=100.0))
    assert course.progress(100.0).eta_s == expected


def test_a_step_beyond_its_total_makes_the_total_unknown() -> None:
    course = ProgressTracker()
    course.note(Sample({}, 40, 40, 1, 1, time=1.0))
    assert course.progress(2.0).eta_s is None, "it may do something else yet"
    course.note(Sample({}, 41, None, 2, time=2.0))
    for steps, epochs in ((None, None), (40, 1)):
        progress = course.progress(3.0, epochs, steps)
        assert (progress.step, progress.steps, progress.epoch, progress.epochs) == (
            41,
            None,
            2,
            None,
        )
        assert progress.fraction is None


@pytest.mark.parametrize("heading", [False, True])
@pytest.mark.parametrize("lines", [1, 3])
def test_an_epoch_is_over_when_its_last_line_has_come(heading: bool, lines: int) -> None:
    course, now = ProgressTracker(), 0.0
    for epoch in range(1, 4):
        if heading:
            course.note(Sample({}, epoch=epoch, epochs=4, time=now))
        for line in range(lines):
            # Those before the one that has begun are over; the first says nothing of its end.
            known = epoch - 1 if heading or line or epoch > 2 else (None, 0)[epoch - 1]
            assert course.progress(now).fraction == (known if known is None else known / 4)
            now += 30.0 / lines
            course.note(Sample({"loss": 1.0 / (line + 1)}, epoch=epoch, epochs=4, time=now))
    assert course.progress(now).fraction == 3 / 4
    assert course.progress(now).eta_s == pytest.approx(30)


def test_samples_per_second_from_the_batch_or_from_the_program_s_own_word() -> None:
    course = ProgressTracker()
    for i in range(3):
        course.note(Sample({}, 1.0 + i, 10, time=100.0 + 2 * i, batch=64))
    assert (course.progress(104).rate, course.progress(104).rate_unit) == (32, "samples")
    course.note(Sample({"images_per_second": 41.5}))
    assert (course.progress(104).rate, course.progress(104).rate_unit) == (41.5, "images")


def test_the_program_s_own_pace_counts_while_no_time_is_known() -> None:
    course = ProgressTracker()
    course.note(Sample({}, 10, 30, pace=4.0))
    assert course.progress(5.0).eta_s == 80


def test_the_trend_is_of_the_best_headline_and_of_finite_values() -> None:
    course = ProgressTracker()
    for name, value in (
        ("my_loss", 9.0),
        ("loss_batch", 1.0),
        ("loss_batch", math.nan),
        ("loss", 0.5),
        ("loss", 0.4),
    ):
        course.note(Sample({name: value}))
    assert course.headline == "loss" and list(course.trend) == [0.5, 0.4]
    assert repr(course.metrics) == repr({"my_loss": 9.0, "loss_batch": math.nan, "loss": 0.4})
    lonely = ProgressTracker()
    lonely.note(Sample({"accuracy": 0.5}))
    assert lonely.headline is None and not lonely.trend


@pytest.mark.parametrize(("total", "by_two"), [(21, 18 * 10.0), (22, None)])
def test_a_time_left_is_told_by_three_intervals_or_by_two_that_are_alike_after_the_first_tenth(
    total: int, by_two: float | None
) -> None:
    course, now = ProgressTracker(), 0.0
    told = []
    for pace in (30.0, 10.0, 10.0, 10.0):
        now += pace
        course.note(Sample({"loss": 1.0}, len(told) + 1, total, time=now))
        told.append(course.progress(now).eta_s)
    assert told == [None, None, by_two and pytest.approx(by_two), pytest.approx((total - 4) * 10)]
    slower = ProgressTracker()
    for step, at in enumerate((0.0, 10.0, 25.0), 1):
        slower.note(Sample({"loss": 1.0}, step, 100, time=at))
    assert slower.progress(25.0).eta_s is None, "10 s and 15 s: nobody knows which"


def test_far_longer_without_a_step_than_ever_before_no_time_left_is_known() -> None:
    course = ProgressTracker()
    for step in range(1, 11):
        course.note(Sample({"loss": 1.0}, step, 100, time=10.0 * step))
    assert course.progress(120.0).eta_s == pytest.approx(880)
    assert course.progress(131.0).eta_s is None
    course.note(Sample({"loss": 1.0}, 11, 100, time=140.0))
    assert course.progress(140.0).eta_s is not None


def test_after_a_silence_unlike_any_before_the_next_step_tells_how_long_the_rest_takes() -> None:
    course = ProgressTracker()
    for step in range(1, 11):
        course.note(Sample({"loss": 1.0}, step, 20, time=10.0 * step))
    found = []
    for step, at in ((10, 114.0), (10, 116.0), (11, 118.0), (12, 128.0)):
        course.note(Sample({"loss": 1.0}, step, 20, time=at))
        found.append(course.progress(at).eta_s is not None)
    assert found == [True, False, False, True]


def test_no_time_left_is_told_of_a_last_step_that_comes_some_time_soon() -> None:
    course, now = ProgressTracker(), 0.0
    for step, seconds in enumerate((8.0, 12.0, 9.0, 11.0, 10.0, 10.0), 1):
        now += seconds
        course.note(Sample({"loss": 1.0}, step, 7, time=now))
    found = [course.progress(now + passed).eta_s for passed in (0, 5, 8, 14)]
    assert found == [pytest.approx(10, rel=0.05), pytest.approx(5, rel=0.1), None, None]


@pytest.mark.parametrize("stated", [{"pace": 1.0}, {"eta": 2.0}])
def test_while_a_program_trains_it_has_never_no_time_left(stated: dict[str, float]) -> None:
    """No ETA of 0 while it trains: not by its steps, nor by its own word when that has passed."""
    silent, steady = ProgressTracker(), ProgressTracker()
    silent.note(Sample({}, 98, 100, time=50.0, **stated))
    for step in range(95, 99):
        steady.note(Sample({}, step, 100, time=float(step), **stated))
    for course in (silent, steady):
        for passed in range(20):
            eta = course.progress(course.last_time + passed).eta_s
            assert eta is None or eta > 0, passed
        assert eta is None
        course.note(Sample({}, 100, 100, time=course.last_time + 1))
        assert course.progress(course.last_time).eta_s is None


def test_what_a_program_prints_of_its_pace_is_no_time_left_where_its_steps_tell_none() -> None:
    course = ProgressTracker()
    for step, at in enumerate((1.0, 2.0, 3.0, 4.0, 5.0), 1):
        course.note(Sample({}, step, 20, time=at, pace=1.0, eta=15.0))
    assert course.progress(5.0).eta_s == pytest.approx(15)
    assert course.progress(9.0).eta_s is None


@pytest.mark.parametrize("printed", [{}, {"pace": 4.0}])
def test_a_first_epoch_of_several_tells_no_time_left_of_the_others(
    printed: dict[str, float],
) -> None:
    """It decodes, compiles and fills caches: here its steps take eight times as long."""
    course, only, now = ProgressTracker(), ProgressTracker(), 0.0
    told = []
    for step in range(1, 25):
        now += 8.0 if step <= 10 else 1.0
        course.note(Sample({"loss": 1.0}, step, 40, 1 + (step - 1) // 10, 4, now, **printed))
        only.note(Sample({"loss": 1.0}, step, 40, 1, 1, now))
        told.append(course.progress(now).eta_s)
        assert step < 4 or step > 10 or only.progress(now).eta_s == pytest.approx((40 - step) * 8)
    assert told[:12] == [None] * 12
    assert told[12:] == pytest.approx([40.0 - step for step in range(13, 25)])


def test_a_pause_that_did_not_come_when_it_was_due_is_not_awaited_again_and_again() -> None:
    course, now = ProgressTracker(), 0.0
    for step in range(1, 101):
        now += 31.0 if step == 20 else 1.0
        course.note(Sample({"loss": 1.0}, step, 120, time=now))
    eta = course.progress(now).eta_s
    assert eta == pytest.approx(20 + 30 * 20 / 99, rel=0.01), "by its share, not once in 20 steps"


def test_names_that_a_program_invents_are_not_kept_for_the_means_either() -> None:
    collection, tracker = SeriesSet("output"), ProgressTracker()
    for i in range(20_000):
        collection.note(Sample({f"m{i}": 1.0}, 1))
        tracker.note(Sample({f"m{i}": 1.0}, 1))
    assert len(msgspec.msgpack.encode(tracker.state())) < 50_000


def test_what_is_said_of_the_beginning_once_more_takes_no_curve_of_the_attempt_before() -> None:
    collection = SeriesSet("output")
    for step in (1, 2, 3):
        collection.note(Sample({"loss": 10.0 - step}, step))
    collection.begin_attempt()
    collection.note(Sample({"base_rate": 0.1}, 0.0, at=0.0))
    collection.note(Sample({"loss": 0.5}, 3))
    assert steps_and_values(collection, "loss") == [(1, 9), (2, 8), (3, 0.5)]


def test_a_count_from_below_zero_is_no_share_of_a_run() -> None:
    tracker = ProgressTracker()
    tracker.note(Sample({"loss": 1.0}, -5, 100))
    assert tracker.progress(0.0).fraction is None and tracker.metrics == {"loss": 1.0}


def test_a_clock_that_was_set_back_takes_nothing_of_what_was_measured() -> None:
    moments = (100.0, 200.0, 300.0, 150.0, 350.0)
    gpus = GpuSource(make_run(started=0.0))
    for moment in moments:
        gpu = GpuInterval(0, "GPU-0", moment, 1, 1.0, 1.0)
        gpus._note_all("", UsageInterval(moment, 1.0, (gpu,)), 0.0)
    assert list(gpus.series["gpu0/util"].values) == list(moments)
    # None stands where another was.
    series = gpus.series["gpu0/util"]
    assert list(places(Stretch(series, 0.0, 0.0), "time") or ()) == [100, 200, 300, 300, 350]


def test_of_a_run_that_counts_epochs_alone_values_stand_at_epochs() -> None:
    tracker = ProgressTracker()
    for epoch in (1, 2, 3):
        tracker.note(Sample({"loss": 1.0 / epoch}, epoch=epoch, epochs=3))
    assert tracker.extremes["loss"].least_at == 3 and tracker.progress(0.0).counted == "epochs"
