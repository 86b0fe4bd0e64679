"""Which value of a metric is its best, and what is said of it: everywhere the same one."""

from pathlib import Path

import pytest

from runners.guard.hopeless import _course
from runners.health.histories import LossHistory
from runners.lifecycle.launch.sampler_study import _result
from runners.model.run import Run
from runners.model.sampler_search import Search
from runners.model.states import State
from runners.watch.metrics.final_maker import keep_final
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.run_metrics import RunMetrics
from tests.support import make_run
from tui.views.metrics.curves import curve_of
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def keras(*epochs: tuple[float, ...]) -> str:
    """Keras' bars, redrawn after each of four batches: accuracies as means of the epoch so far."""
    text = ""
    for number, means in enumerate(epochs, 1):
        text += f"Epoch {number}/{len(epochs)}\n"
        for done, accuracy in enumerate(means, 1):
            bar = f"{done}/4 ━━━━ 3s 10ms/step - accuracy: {accuracy} - loss: {1 - accuracy:.4f}"
            text += bar + ("\n" if done == 4 else "\r")
    return text


def tqdm(*epochs: tuple[float, ...]) -> str:
    """A tqdm bar per epoch with the average loss so far."""
    text = ""
    for number, means in enumerate(epochs, 1):
        for done, loss in enumerate(means, 1):
            bar = (
                f"Epoch {number}: {25 * done}%|██| {done}/4 [00:01<00:03, 1.00it/s, "
                f"avg_loss={loss}]"
            )
            text += bar + ("\n" if done == 4 else "\r")
    return text


def written(folder: Path, text: str, state: State = State.DONE) -> Run:
    (folder / "output.log").write_text(text)
    return make_run(state, directory=str(folder), ended=2000.0 if state is State.DONE else None)


KERAS = keras((1.0, 0.6, 0.5, 0.55), (0.9, 0.7, 0.65, 0.7))
CASES = [
    (KERAS, "accuracy", 0.7),
    (tqdm((0.1, 0.4, 0.5, 0.6), (0.2, 0.5, 0.5, 0.55)), "avg_loss", 0.55),
]


@pytest.mark.parametrize(("text", "name", "best"), CASES)
def test_a_mean_of_an_epoch_so_far_is_no_best(
    tmp_path: Path, text: str, name: str, best: float
) -> None:
    live = written(tmp_path, text, State.RUNNING)
    report = LiveReport(live)
    report.poll(live)
    assert report.best(live)[name] == (best, 8)
    ended = written(tmp_path, text)
    final = keep_final(ended).metrics[name]
    assert (final.best, final.best_step) == (best, 8)
    metrics = RunMetrics(ended)
    while metrics.poll():
        pass
    curve = curve_of([(ended, metrics.series())], name, higher=metrics.higher(name))
    assert curve is not None and curve.best is not None and curve.best.value == best
    higher = name == "accuracy"
    assert _result(ended, Search("tpe", (), 8, metric=name, higher=higher)) == best
    pick = max if higher else min
    assert pick(_course(metrics.series()[name]).values) == best


def test_an_epoch_that_was_broken_off_has_no_best(tmp_path: Path) -> None:
    text = keras((0.5, 0.5, 0.5, 0.5)) + "Epoch 2/2\n1/4 ━━━━ 3s 10ms/step - accuracy: 1.0\n"
    assert keep_final(written(tmp_path, text)).metrics["accuracy"].best == 0.5


def test_a_last_line_that_is_cut_off_does_not_count(tmp_path: Path) -> None:
    text = "step 1/9 | loss: 0.5\nstep 2/9 | loss: 0.4\nstep 3/9 | loss: 0.0"
    final = keep_final(written(tmp_path, text))
    assert (final.progress.step, final.metrics["loss"].last) == (2, 0.4)


def test_a_sentence_about_a_loss_carries_its_own_numbers() -> None:
    history = LossHistory()
    falling = [1.0 - i / 200 for i in range(100)]
    history.add([*falling, 0.0123, *[0.5 + i * i / 100 for i in range(400)], 987.5])
    assert "987.5 now" in history.diverges() and "best was 0.0123" in history.diverges()


def test_medians_of_a_flat_loss_are_called_medians() -> None:
    history = LossHistory()
    history.add([0.5, 0.7] * 64)
    assert "median" in history.is_flat() and " now" not in history.is_flat()


SB3 = """----------------------------
| rollout/           |     |
|    ep_rew_mean     | {}  |
| time/              |     |
|    total_timesteps | {}  |
----------------------------
"""
PLACES = [
    ("step 3/9 | loss: 0.4\nstep 4/9 | loss: 0.5\n", "loss", ("step", 3)),
    ("Train Epoch: 1 [640/6000 (1%)]\tLoss: 0.5\n" * 2, "loss", ("sample", 640)),
    ("{'loss': 0.4, 'epoch': 0.2}\n{'loss': 0.5, 'epoch': 0.4}\n", "loss", ("epoch", 0.2)),
    ("loss: 0.5\nloss: 0.4\nloss: 0.6\n", "loss", ("line", 2)),
    (SB3.format(7, 2048) + SB3.format(6, 4096), "rollout/ep_rew_mean", ("timestep", 2048)),
]


@pytest.mark.parametrize(("text", "name", "place"), PLACES)
def test_a_best_value_stands_at_a_place_of_its_own_axis(
    tmp_path: Path, text: str, name: str, place: tuple[str, float | None]
) -> None:
    run = written(tmp_path, text)
    final = keep_final(run).metrics[name]
    assert (final.axis, final.best_step) == place
    if place[1] is not None:
        value = to_json(view_run(run))["best"][name]
        assert (value["axis"], value["step"]) == place
