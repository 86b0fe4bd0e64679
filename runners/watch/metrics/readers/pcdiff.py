"""PCDiff's log.

`2026-04-06 06:38:43,991 : [  0/5000][  0/  7]    loss:     1.0364,    grad_norm: 33.6411`.

Facts: DimensionLab/pcdiff-implant and pfriedri/pcdiff-implant (MIT), train_completion.py.
Every message begins with a time in local time; lines without one continue an error's text
and say nothing. Epochs and iterations count from 0. The loss printed is that of one batch,
and of seven batches per epoch only the first is printed; the epoch's mean is printed only
when it is the best so far.
"""

import re
import time
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader, pairs_in
from runners.watch.metrics.sample import Sample

_LINE = late_pattern(r"(?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) : (?P<message>.*)$")
_STEP = late_pattern(
    r"\[ *(?P<epoch>\d+)/ *(?P<epochs>\d+)\]\[ *(?P<at>\d+)/ "
    rf"*(?P<of>\d+)\]\s+loss:\s*(?P<loss>{WHOLE}),"
    rf"(?:\s*grad_norm:\s*(?P<norm>{WHOLE}))?"
)
_PLACE = late_pattern(r"\[ *\d+/ *\d+\]\[ *\d+/ *\d+\]")
_BEST = late_pattern(rf"New best model saved at epoch (?P<epoch>\d+) with loss (?P<loss>{WHOLE})")
_RECENT = late_pattern(
    rf"Loss \(last 50 ep\): median=(?P<median>{WHOLE}), p10=(?P<p10>{WHOLE}), "
    rf"p90=(?P<p90>{WHOLE})"
)
_PROXY = late_pattern(r"Proxy eval complete: (?P<pairs>.*)")
_PAIR = late_pattern(rf"(?P<name>\w+)=(?P<value>{WHOLE})")
_BATCH = late_pattern(r"Batch size: .* = (?P<batch>\d+) effective global batch")
_RATE = late_pattern(rf"Effective LR scaled to (?P<rate>{WHOLE})")


class PcdiffReader(Reader):
    """`loss_batch` and `grad_norm` of printed batches, `best_loss` of epochs, proxy evaluation."""

    name: ClassVar[str] = "pcdiff"
    marks: tuple[str, ...] = (" : ", "][")
    notes: ClassVar[tuple[str, ...]] = (
        "loss_batch is one batch, not the epoch's mean: smooth it before judging",
        "best_loss is the mean of an epoch, printed only when it is the best so far",
    )
    _per_epoch: float | None = None
    _epoch: float | None = None

    def read(self, line: str) -> Sample | None:
        """What a message says; None for other messages and for lines that continue one."""
        found = _LINE.search(line)
        if found is None:
            # Another rank, or a line without its time: the other readers would count it wrongly.
            return CLAIMED if self._epoch is not None and _PLACE.search(line) else None
        message, moment = found["message"], _unix(found["moment"], found["ms"])
        if step := _STEP.search(message):
            return self._step(step, moment)
        if best := _BEST.search(message):
            epoch = number(best["epoch"]) + 1
            return Sample(
                {"best_loss": number(best["loss"])}, self._end_of(epoch), None, epoch, None, moment
            )
        if recent := _RECENT.search(message):
            values = {f"loss_{name}_50": number(recent[name]) for name in ("median", "p10", "p90")}
            return Sample(values, time=moment)
        if proxy := _PROXY.search(message):
            return Sample(pairs_in(_PAIR, proxy["pairs"]), time=moment)
        if batch := _BATCH.search(message):
            return Sample(batch=float(batch["batch"]))
        if rate := _RATE.search(message):
            # A warm-up follows, of which nothing is printed: this is no epoch's own rate.
            return Sample({"base_learning_rate": number(rate["rate"])}, 0.0, time=moment, at=0.0)
        return None if self._epoch is None else CLAIMED

    def _step(self, step: "re.Match[str]", moment: float | None) -> Sample:
        self._per_epoch = number(step["of"])
        before, epochs = number(step["epoch"]), number(step["epochs"])
        values = {"loss_batch": number(step["loss"])}
        if step["norm"]:
            values["grad_norm"] = number(step["norm"])
        self._epoch = before + 1
        # Both count from 0, and finished steps are counted here.
        done = before * self._per_epoch + number(step["at"]) + 1
        return Sample(values, done, epochs * self._per_epoch, before + 1, epochs, moment)

    def _end_of(self, epoch: float) -> float | None:
        return None if self._per_epoch is None else epoch * self._per_epoch


def _unix(moment: str, milliseconds: str) -> float | None:
    try:
        return time.mktime(time.strptime(moment, "%Y-%m-%d %H:%M:%S")) + int(milliseconds) / 1000
    except (ValueError, OverflowError):
        return None
