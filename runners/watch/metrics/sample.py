"""What one line of output, or one event, says: values, and where in the run they belong."""

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from runners.model.late_pattern import late_pattern


class Sample(NamedTuple):
    """Values at one place of a run.

    `step` counts finished steps over the whole run and `epoch` from 1, as far as the source tells;
    `steps` and `epochs` are the totals, NaN for one that proved wrong. `pace` is seconds per step
    and `eta` seconds until the end, both as the program prints them; `batch` is samples per step.
    `unit` is what `step` counts. `running` are names of means over an epoch that is not over:
    a lucky first batch is nobody's best. `over` is how many epochs are over, where it is said.
    `at` is the step to which the values belong where that is an earlier one, said again at the end.
    """

    values: Mapping[str, float] = MappingProxyType({})
    step: float | None = None
    steps: float | None = None
    epoch: float | None = None
    epochs: float | None = None
    time: float | None = None
    pace: float | None = None
    batch: float | None = None
    phase: str | None = None
    eta: float | None = None
    unit: str = ""
    running: tuple[str, ...] = ()
    over: float | None = None
    at: float | None = None


NotFinite = Literal["nan", "inf", "-inf"]
"""A value that JSON has no number for, by its name."""


def not_finite(value: float | None) -> NotFinite | None:
    """The name of a value that is no finite number; None of any other."""
    if value is None or math.isfinite(value):
        return None
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def decimals_of(value: float) -> int:
    """The digits behind the point with which a finite number is written."""
    text = repr(value)
    if "e" not in text:
        return len(text.partition(".")[2])
    # Imported by few: most numbers have no exponent.
    from decimal import Decimal

    return max(0, -int(Decimal(text).as_tuple().exponent))


MOST_COUNTED = 1 << 53
"""No run has so many steps, epochs or seconds; floats hold every whole number up to here."""


def sensible(sample: Sample) -> Sample:
    """The sample without a place, total or time that is no finite number a run can have.

    A total may be NaN, which says that one proved wrong.
    """
    _, step, steps, epoch, epochs, time, pace, _, _, eta, *_, at = sample
    if (
        is_sensible(step)
        and is_sensible(epoch)
        and (steps is None or steps != steps or is_sensible(steps))
        and (epochs is None or epochs != epochs or is_sensible(epochs))
        and is_sensible(time)
        and is_sensible(pace)
        and is_sensible(eta)
        and is_sensible(at)
    ):
        return sample
    return sample._replace(
        step=_sensible(step),
        steps=_sensible(steps),
        epoch=_sensible(epoch),
        epochs=_sensible(epochs),
        time=_sensible(time),
        pace=_sensible(pace),
        eta=_sensible(eta),
        at=_sensible(at),
    )


def is_sensible(number: float | None) -> bool:
    """Whether a number can be a step, an epoch or a time of a run; None, which says nothing, is."""
    # NaN fails both comparisons; whole numbers of any length are compared, never converted.
    return number is None or -MOST_COUNTED <= number <= MOST_COUNTED


def _sensible(number: float | None) -> float | None:
    return number if is_sensible(number) else None


@lru_cache(maxsize=4096)
def metric_name(text: str) -> str:
    """A name as series have it: `Train - Total` is `train_total`."""
    return re.sub(r"[^\w/.%@-]+", "_", text.strip()).strip("_-").replace("_-_", "_").lower()


_HIGHER = late_pattern(
    r"(?:^|[_/\W])(?:acc(?:uracy)?\d?|psnr|ssim|dice|dsc|b_?dsc|iou|miou|map|auc|auroc|f1|bleu"
    r"|rouge\w*|recall|precision|r2|rew(?:ard)?s?|returns?|score|ap\d*"
    r"|\w*_per_s(?:econd)?|it/s)(?:$|[_/\W\d])"
)
_LOWER = late_pattern(
    r"loss|error|1-|hd95|mse|mae|(?:^|[_/\W])(?:perplexity|ppl|wer|cer|lpips|fid)(?:$|[_/\W\d])"
)
_SPREAD = late_pattern(r"(?:^|[_/\W])(?:std|var|min|max)(?:$|[_/\W])")
_HEADLINES = (
    # Of reinforcement learning, whose losses say nothing of how well it goes.
    *("rollout/ep_rew_mean", "critic/rewards/mean", "critic/score/mean", "reward", "mean_reward"),
    *("loss", "train_loss", "train/loss", "training_loss", "loss/train", "total_loss"),
    *("train/total", "train_total", "train_loss_step", "train_loss_epoch", "loss_epoch"),
    *("loss_batch", "running_loss", "avg_loss", "epoch_loss", "best_loss", "val_loss", "val/loss"),
)
"""Names of what describes a run in one number, the best first."""
_RANKS = {name: rank for rank, name in enumerate(_HEADLINES)}
NO_HEADLINE = len(_RANKS) + 1


@lru_cache(maxsize=4096)
def higher_is_better(name: str) -> bool | None:
    """Whether more of a metric is better, by its name; None when the name does not tell."""
    # `loss` first: `ssim_loss` has the name of a measure of which more is better.
    if _LOWER.search(name.lower()):
        return False
    if _SPREAD.search(name.lower()):
        return None  # of a score or a reward: how far they are apart
    return True if _HIGHER.search(name.lower()) else None


def headline(names: Iterable[str]) -> str | None:
    """The one of `names` that describes a run best in one number: its loss; None without any."""
    best = min(names, key=headline_rank, default=None)
    return None if best is None or headline_rank(best) == NO_HEADLINE else best


@lru_cache(maxsize=4096)
def headline_rank(name: str) -> int:
    """How well `name` describes a run in one number: 0 is best, NO_HEADLINE not at all."""
    return _RANKS.get(name, len(_RANKS) if name.endswith("loss") else NO_HEADLINE)
