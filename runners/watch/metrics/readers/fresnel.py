"""The Fresnel trainers' lines.

Facts: the Fresnel repository's train_gaussian_decoder.py and its CVS trainer. Batches count from 0
and only every tenth is printed, so that a run of ten or fewer per epoch shows only batch 0: a
batch's loss, not the epoch's mean. What is printed as "SSIM" is the loss 1 − SSIM. The only time
that is printed is the seconds of an epoch.
"""

from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.sample import Sample, metric_name

_EPOCH = late_pattern(r"^Epoch (?P<epoch>\d+)/(?P<epochs>\d+)\s*$")
_BATCH = late_pattern(r"^\s+Batch (?P<at>\d+)/(?P<of>\d+)(?P<pairs>(?: \| [^|]+)+)$")
_DONE = late_pattern(r"^Epoch (?P<epoch>\d+) complete(?P<pairs>(?: \| [^|]+)+)$")
_LOST = late_pattern(r"^\s*Warning: NaN/Inf loss at batch (?P<at>\d+), skipping")
_SIZE = late_pattern(r"^\s*Batch size: (?P<batch>\d+)\s*$")
_PAIR = late_pattern(rf"(?P<name>[\w ]{{0,63}}\w): (?P<value>{WHOLE})")
_CVS = late_pattern(
    rf"^Epoch (?P<epoch>\d+)/(?P<epochs>\d+) \[(?P<at>\d+)/(?P<of>\d+)\] loss: {WHOLE}.*$",
)
_CVS_SUMMARY = late_pattern(r"^\s*Epoch (?P<epoch>\d+) Summary")
_CVS_MEAN = late_pattern(rf"^\s*Average Loss: (?P<loss>{WHOLE})")


class FresnelReader(Reader):
    """The epoch's means, and `…_batch` of printed batches; `ssim` corrected where it is named."""

    name: ClassVar[str] = "fresnel"
    marks: tuple[str, ...] = ("Epoch ", "atch ", "Loss")
    notes: ClassVar[tuple[str, ...]] = ("…_batch is one batch, not the epoch's mean",)
    ambiguous: ClassVar[tuple[str, ...]] = ("ssim", "ssim_batch")
    corrections: ClassVar[tuple[str, ...]] = (
        "the program prints 1 − SSIM as SSIM: that is ssim_loss here, and ssim is the true one",
    )
    _epoch: float | None = None
    _epochs: float | None = None
    _per_epoch: float | None = None

    def read(self, line: str) -> Sample | None:
        """A heading, a batch, or the end of an epoch."""
        if heading := _EPOCH.match(line):
            self._epoch, self._epochs = number(heading["epoch"]), number(heading["epochs"])
            return Sample(epoch=self._epoch, epochs=self._epochs)
        if batch := _BATCH.match(line):
            return self._batch(number(batch["at"]), number(batch["of"]), batch["pairs"])
        if done := _DONE.match(line):
            return self._epoch_done(number(done["epoch"]), done["pairs"])
        if lost := _LOST.match(line):
            return Sample(
                # A batch without a loss is a point that is not finite, so that the curve shows it.
                {"loss_batch": float("nan")},
                self._step(number(lost["at"])),
                epoch=self._epoch,
            )
        if size := _SIZE.match(line):
            return Sample(batch=float(size["batch"]))
        return self._read_cvs(line)

    def _read_cvs(self, line: str) -> Sample | None:
        if step := _CVS.match(line):
            self._epoch, self._epochs = number(step["epoch"]), number(step["epochs"])
            return self._batch(number(step["at"]), number(step["of"]), line[step.end("of") + 1 :])
        if summary := _CVS_SUMMARY.match(line):
            self._epoch = number(summary["epoch"])
        elif mean := _CVS_MEAN.match(line):
            return Sample(
                {"loss": number(mean["loss"])},
                self._end(self._epoch),
                None,
                self._epoch,
                self._epochs,
            )
        return None

    def _batch(self, at: float, of: float, pairs: str) -> Sample:
        self._per_epoch = of
        steps = self._epochs * of if self._epochs else None
        return Sample(
            self._values(pairs, "_batch"), self._step(at), steps, self._epoch, self._epochs
        )

    def _epoch_done(self, epoch: float, pairs: str) -> Sample:
        values = self._values(pairs, "")
        took = values.pop("time", None)
        if took is not None:
            values["epoch_seconds"] = took
        steps = self._epochs * self._per_epoch if self._epochs and self._per_epoch else None
        # The only time that is printed is that of a whole epoch.
        pace = took / self._per_epoch if took and self._per_epoch else None
        return Sample(values, self._end(epoch), steps, epoch, self._epochs, pace=pace)

    def _step(self, at: float) -> float | None:
        if self._epoch is None or self._per_epoch is None:
            return None
        # Batches count from 0, and finished steps are counted here.
        return (self._epoch - 1) * self._per_epoch + at + 1

    def _end(self, epoch: float | None) -> float | None:
        return None if epoch is None or self._per_epoch is None else epoch * self._per_epoch

    def _values(self, pairs: str, ending: str) -> dict[str, float]:
        values = {}
        for pair in _PAIR.finditer(pairs):
            name, value = metric_name(pair["name"]), number(pair["value"])
            if name == "ssim" and self.named:
                values[f"ssim_loss{ending}"] = value
                value = 1 - value
            values[name + ending if name not in ("time", "lr") else name] = value
        return values
