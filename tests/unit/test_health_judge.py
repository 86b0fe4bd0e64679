"""What the signs of a live run mean: each condition, and what must not be taken for it."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from runners.diagnosis.remedy_names import REMEDIES
from runners.health.episodes import EpisodeTracker
from runners.health.histories import LossHistory, PaceHistory, plain_baseline
from runners.health.judge import judge
from runners.health.signs import BaselineSign, GpuSign, Outlook, RunSigns
from runners.model.health import Condition, Finding, RankSign
from runners.model.spec import MetricRule
from runners.model.units import duration_text
from runners.state.deadline import Deadline
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.reading import OutputReader

HEALTHY = sorted(
    path
    for path in (Path(__file__).parents[1] / "samples").glob("*.txt")
    if not path.name.startswith("e-")  # those failed
)
NOW = 100_000.0
BUSY = GpuSign(0, 98.0, 600.0, 97.0, 610.0)
SPINNING = GpuSign(0, 100.0, 210.0, 97.0, 610.0)
IDLE = GpuSign(0, 0.0, 90.0, 97.0, 610.0)


def signs(quiet: float = 5.0, **changes: Any) -> RunSigns:
    """A run that has stepped for hours and last said something `quiet` seconds ago."""
    fields: dict[str, Any] = {
        "now": NOW,
        "started": NOW - 20_000,
        "output_at": NOW - quiet,
        "event_at": NOW - quiet - 1,
        "stepped": True,
        "gap_s": 30.0,
        "gpus": (BUSY,),
        "ranks": (RankSign("rank 0", 1, "runs", 0, 99.0), RankSign("rank 1", 2, "runs", 1, 99.0)),
        "expected_ranks": 2,
        "cpu_percent": 198.0,
        "usual_cpu_percent": 200.0,
    }
    return RunSigns(**(fields | changes))


def quiet_start(seconds: float, **changes: Any) -> RunSigns:
    """A run that has said nothing since its start, `seconds` ago."""
    nothing = {"stepped": False, "output_at": None, "event_at": None, "gap_s": None}
    return signs(seconds, **(nothing | {"started": NOW - seconds, "gpus": (IDLE,)} | changes))


def gravest(found: RunSigns) -> Finding:
    return judge(found)[0]


def history(values: list[float]) -> LossHistory:
    found = LossHistory()
    found.add(values)
    return found


def test_a_loss_that_jumps_and_one_that_is_all_noise_are_told_from_one_that_falls() -> None:
    chance = random.Random(7)
    smooth = [1.0 / (1 + i / 50) * chance.lognormvariate(0, 0.2) for i in range(400)]
    assert not history(smooth).spikes() and not history(smooth).is_noisy()
    jumping = [value * (6 if i % 40 == 39 else 1) for i, value in enumerate(smooth)]
    assert "4 times" in history(jumping).spikes() and not history(jumping).is_noisy()
    once = [value * (6 if i == 390 else 1) for i, value in enumerate(smooth)]
    assert not history(once).spikes(), "one spike is nobody's fault"
    wild = [chance.lognormvariate(0, 1.5) for _ in range(400)]
    assert history(wild).is_noisy()
    # What a diffusion model's single steps do is noise of about half their size.
    steps = [0.1 * chance.lognormvariate(0, 0.5) for _ in range(400)]
    assert not history(steps).is_noisy() and not history(steps).spikes()


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({"spikes": "jumped 4 times"}, Condition.SPIKES),
        ({"noisy": "goes up and down"}, Condition.NOISY),
        ({"data_wait_share": 0.6}, Condition.DATA),
        ({"diverges": "rises"}, Condition.DIVERGING),
    ],
)
def test_the_guides_bad_signs_are_found_with_what_helps(
    changes: dict[str, Any], condition: Condition
) -> None:
    found = gravest(signs(**changes))
    assert found.condition is condition and found.condition.is_trouble
    assert condition.advice and set(condition.remedies) <= set(REMEDIES)


def test_waiting_a_little_for_data_is_nothing() -> None:
    assert gravest(signs(data_wait_share=0.2)).condition is Condition.PROGRESSING


def test_a_run_that_says_something_now_and_then_progresses() -> None:
    assert gravest(signs()).condition is Condition.PROGRESSING
    found = gravest(signs(stepped=False, started=NOW - 600, output_at=None, event_at=None))
    assert found.condition is Condition.WARMING and "10m00s" in found.message


def test_a_full_gpu_without_its_power_is_no_work() -> None:
    found = gravest(signs(700.0, gpus=(SPINNING,)))
    assert found.condition is Condition.STALL and found.message == "silent for 11m40s"
    assert "last output 11m40s ago" in found.evidence
    assert "GPU 0 (before): 100 % (97 %), 210 W (610 W)" in found.evidence
    assert "rank 0, rank 1: runs, 99 % CPU" in found.evidence


@pytest.mark.parametrize(
    "healthy",
    [
        signs(900.0),  # a long silent epoch, the GPU at work
        signs(900.0, gpus=(SPINNING,), gap_s=400.0),  # twice its own longest silence
        signs(900.0, gpus=(), cpu_percent=190.0),  # on the CPU, as busy as ever
        signs(590.0, gpus=(IDLE,), cpu_percent=0.0),
        quiet_start(1500.0, cpu_percent=100.0),  # it compiles
        quiet_start(3000.0, gpus=(BUSY,)),  # a silent first epoch
        quiet_start(7000.0, gpus=(), cpu_percent=100.0),  # it prepares data
        signs(4000.0, gpus=(IDLE,), cpu_percent=0.0, waits_for_input=True),
    ],
)
def test_silence_alone_is_no_stall(healthy: RunSigns) -> None:
    assert Condition.STALL not in [one.condition for one in judge(healthy)]


@pytest.mark.parametrize(
    ("quiet", "changes", "activity"),
    [
        (1140.0, {"gpus": (), "cpu_percent": 190.0}, ", processor busy as before"),
        (1140.0, {}, ", GPUs busy as before"),
        (1140.0, {"gpus": (), "cpu_percent": None}, ""),  # one look, and nothing measured
        (300.0, {"gpus": (IDLE,), "cpu_percent": 0.0}, ", GPUs idle"),
    ],
)
def test_a_run_that_says_nothing_is_silent_and_not_progressing(
    quiet: float, changes: dict[str, Any], activity: str
) -> None:
    (found,) = judge(signs(quiet, **changes))
    assert found.condition is Condition.SILENT and not found.condition.is_trouble
    assert found.message == f"silent for {duration_text(quiet)}{activity}"
    assert any(line.startswith("last output") for line in found.evidence)


def test_a_run_that_waits_for_input_or_is_held_has_not_stalled() -> None:
    dead: dict[str, Any] = {"gpus": (IDLE,), "cpu_percent": 0.0}
    assert gravest(signs(4000.0, **dead)).condition is Condition.STALL
    assert gravest(signs(4000.0, **dead, waits_for_input=True)).condition is Condition.INPUT
    assert gravest(signs(4000.0, **dead, paused=True)).condition is Condition.PAUSED


def test_a_program_that_never_began_and_does_nothing_has_stalled() -> None:
    found = gravest(quiet_start(1000.0, cpu_percent=0.5))
    assert found.condition is Condition.STALL and "no output so far" in found.evidence


def test_a_preset_says_from_when_on_silence_counts_but_not_while_it_warms_up() -> None:
    assert gravest(signs(61.0, stall_after_s=60.0)).condition is Condition.STALL
    assert gravest(signs(59.0, stall_after_s=60.0)).condition is Condition.PROGRESSING
    compiling = quiet_start(900.0, stall_after_s=60.0, cpu_percent=100.0)
    assert gravest(compiling).condition is Condition.WARMING


def test_a_rank_that_is_gone_is_named() -> None:
    found = gravest(signs(700.0, gpus=(SPINNING,), expected_ranks=4))
    assert "no process of rank 2, 3" in found.evidence


def test_conditions_of_loss_pace_data_and_baseline_are_told_together() -> None:
    found = judge(
        signs(
            losses_not_finite=3,
            pace_s=0.9,
            usual_pace_s=0.5,
            gpus=(GpuSign(0, 22.0, 200.0, 80.0, 500.0),),
            loaders=8,
            loader_percent=97.0,
            baseline=BaselineSign("val_loss", 0.9, 0.7, 3, 6),
        )
    )
    kinds = [one.condition for one in found]
    assert kinds == [
        Condition.NOT_FINITE, Condition.DATA, Condition.SLOW, Condition.BELOW, Condition.PROGRESSING
    ]  # fmt: skip
    words = {one.condition: one.message for one in found}
    assert words[Condition.DATA] == "waits for data: GPUs at 22 %, loaders busy"
    assert words[Condition.SLOW] == "1.8 times slower than its usual pace"
    assert "worse than the plain baseline's 0.7" in words[Condition.BELOW]


@pytest.mark.parametrize(
    "healthy",
    [
        signs(losses_not_finite=2),
        signs(pace_s=0.7, usual_pace_s=0.5),
        signs(gpus=(GpuSign(0, 22.0),), loaders=8, loader_percent=30.0),  # the GPU is the fast one
        signs(gpus=(GpuSign(0, 95.0),), loaders=8, loader_percent=99.0),
        signs(baseline=BaselineSign("val_loss", 0.9, 0.7, 2, 2)),
    ],
)
def test_one_sign_alone_is_not_enough(healthy: RunSigns) -> None:
    assert gravest(healthy).condition is Condition.PROGRESSING


# ── the course of a loss ──────────────────────────────────────────────────────────────────────────


def course(values: list[float]) -> LossHistory:
    history = LossHistory()
    history.add(values)
    return history


def noisy(means: list[float], noise: float = 0.05, seed: int = 3) -> list[float]:
    chance = random.Random(seed)
    return [mean + chance.gauss(0, noise) for mean in means]


@pytest.mark.parametrize("count", [60, 300, 5000])
def test_a_loss_that_falls_or_came_to_rest_is_well(count: int) -> None:
    falling = course(noisy([2.0 * 0.5 ** (6 * i / count) + 0.2 for i in range(count)]))
    rests = course(noisy([1.0 if i < count / 20 else 0.3 for i in range(count)]))
    spikes = course([50.0 if i % 97 == 0 else 1.0 - 0.5 * i / count for i in range(count)])
    for history in (falling, rests, spikes):
        assert (history.diverges(), history.is_flat()) == ("", "")


@pytest.mark.parametrize("count", [120, 5000])
def test_a_loss_that_loses_what_it_had_gained_diverges(count: int) -> None:
    half = count // 2
    means = [2.0 - 1.5 * i / half for i in range(half)] + [
        0.5 + 4.0 * i / half for i in range(half)
    ]
    assert "its best was" in course(noisy(means)).diverges()
    assert course(noisy(means[: half + half // 20])).diverges() == "", "a small rise"


def test_a_loss_that_never_fell_is_flat() -> None:
    assert "has not fallen in 400 values" in course(noisy([2.3] * 400, 0.02)).is_flat()
    assert course(noisy([2.3] * 30, 0.02)).is_flat() == "", "too early to say"


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_outputs_of_real_programs_give_no_alarm(path: Path) -> None:
    reader, tracker = OutputReader(MetricRule()), ProgressTracker()
    for line in re.split(rb"[\r\n]+", path.read_bytes()):
        for sample in reader.read(line):
            tracker.note(sample)
    history = course(list(tracker.newest))
    assert (history.diverges(), history.is_flat(), history.not_finite) == ("", "", 0)


def test_the_end_of_a_loss_whose_beginning_nobody_saw_is_not_called_flat() -> None:
    history = course(noisy([2.3] * 400, 0.02))
    history.is_partial = True
    assert history.is_flat() == ""


def test_values_that_are_not_finite_count_only_in_a_row() -> None:
    history = course([1.0, float("nan"), 0.9, float("inf"), float("nan")])
    assert (history.not_finite, history.seen) == (2, 2)
    history.add([0.8])
    assert history.not_finite == 0


def test_baselines_are_found_by_their_names() -> None:
    metrics: dict[str, float | int | None] = {
        "val_loss": 0.5, "val_loss_baseline": 0.7, "val/dice": 0.8, "baseline_dice": 0.6, "lr": 0.1,
    }  # fmt: skip
    assert plain_baseline(metrics) == [("val_loss", 0.5, 0.7), ("val/dice", 0.8, 0.6)]


def test_a_pace_is_its_own_after_a_quarter_of_an_hour() -> None:
    paces = PaceHistory()
    moment, step = 0.0, 0
    for block in range(12):
        for _ in range(190):
            moment += 1.0 if block < 9 else 2.0
            step += 1
            paces.note(moment, step, None)
    assert paces.usual == pytest.approx(1.0, rel=0.05)
    assert paces.recent == pytest.approx(2.0, rel=0.05)
    paces.note(moment + 1, 1, None)  # the program began anew
    assert paces.recent is None


# ── once, and not at every flicker ────────────────────────────────────────────────────────────────


def test_a_condition_is_said_once_and_shown_until_it_is_over() -> None:
    tracker = EpisodeTracker()
    slow, well = Finding(Condition.SLOW, "slow"), Finding(Condition.PROGRESSING, "progressing")
    shown, said = [], []
    for second in range(0, 600, 10):
        found = (slow, well) if 60 <= second < 400 and second != 300 else (well,)
        verdict = tracker.take(found, NOW + second)
        shown.append(verdict.health.condition)
        said += [(second, one.condition) for one in verdict.news]
    assert said == [(180, Condition.SLOW)]
    slow_at = [10 * i for i, condition in enumerate(shown) if condition is Condition.SLOW]
    assert (slow_at[0], slow_at[-1]) == (180, 440)  # a look without it in between ends nothing


def test_a_stall_is_said_at_once_over_at_once_and_said_again_only_later() -> None:
    tracker = EpisodeTracker()
    stall = Finding(Condition.STALL, "silent for 6m", ("evidence",))
    well = Finding(Condition.PROGRESSING, "progressing")
    first = tracker.take((stall,), NOW)
    assert first.news == (stall,) and first.health.evidence == ("evidence",)
    assert tracker.take((well,), NOW + 10).health.condition is Condition.PROGRESSING
    assert tracker.take((stall,), NOW + 600).news == ()
    assert tracker.take((well,), NOW + 700).news == ()
    assert tracker.take((stall,), NOW + 4000).news == (stall,)
    silent = Finding(Condition.SILENT, "silent for 9m, processor busy as before")
    held = tracker.take((silent,), NOW + 4300).health
    assert held.condition is Condition.STALL and held.message == silent.message, "still unbroken"
    assert tracker.take((well,), NOW + 4400).health.condition is Condition.PROGRESSING
    known = EpisodeTracker([(Condition.STALL, NOW)])
    assert known.take((stall,), NOW + 60).news == (), "its watcher was started anew"


def test_a_clock_that_is_set_back_makes_nothing_last_longer() -> None:
    stall, well = Finding(Condition.STALL, "silent"), Finding(Condition.PROGRESSING, "progressing")
    slow = Finding(Condition.SLOW, "slow")
    tracker, back = EpisodeTracker(), NOW - 3600
    assert tracker.take((stall, well), NOW).health.condition is Condition.STALL
    assert tracker.take((slow, well), back).health.condition is Condition.STALL
    assert tracker.take((slow, well), back + 10).health.condition is Condition.PROGRESSING
    said = [tracker.take((slow, well), back + second).news for second in (120, 140)]
    assert said == [(slow,), ()]


@pytest.mark.parametrize(
    ("ends_in", "left", "is_late"),
    [(3600.0, 7200.0, True), (3600.0, 4000.0, False), (3600.0, None, False), (-5.0, 60.0, True)],
)
def test_a_run_that_its_limit_ends_long_before_it_is_done(
    ends_in: float, left: float | None, is_late: bool
) -> None:
    deadline = Deadline(ends_in, "the time limit of its Slurm job")
    found = judge(signs(outlook=Outlook(deadline, left, 0.41)))
    late = [finding for finding in found if finding.condition is Condition.UNFINISHED]
    assert bool(late) is is_late
    again = judge(signs(outlook=Outlook(deadline._replace(is_final=False), left, 0.41)))
    assert Condition.UNFINISHED not in {finding.condition for finding in again}
    if late:
        assert deadline.limit in late[0].message and late[0].evidence
        assert late[0].condition.is_trouble and late[0].condition.advice
