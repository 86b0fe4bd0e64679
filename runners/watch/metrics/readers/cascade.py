"""The hybrid-ViT cascade's lines: A (three stages), B (regression) and C (progressive).

Facts: the cascade repository's training scripts. A, with torchrun and Accelerate: a tqdm bar per
epoch and a block of means; a PSNR of 0.00 means that the metric failed. B: "SSIM" is 1 − SSIM,
batches count from 0. C and Direct128/256: the loss of the blocks is always 0.000000. Each stage
begins at epoch 1 again, so steps are added up over the stages. PSNR is taken as printed: its range
depends on the script's data, and a preset's `offset` corrects it where necessary.
"""

import re
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.line_reader import Reader, pairs_in
from runners.watch.metrics.sample import Sample

_STAGE = late_pattern(r"^Training Stage (?P<stage>\d{1,6})/(?P<stages>\d{1,6})(?!\d)")
_HEADING = late_pattern(
    r"^Epoch (?P<epoch>\d+)/(?P<epochs>\d+)(?: \(time: [\d.]+s\)| - Time: [\d.]+s)?:?\s*$"
)
_MEANS = late_pattern(r"^\s*(?P<kind>Train|Val)\s+- (?P<pairs>[A-Za-z]+: .*)$")
_METRICS = late_pattern(r"^\s*Metrics - (?P<pairs>.*)$")
_B = late_pattern(r"^Epoch (?P<epoch>\d+) \[(?P<at>\d+)/(?P<of>\d+)\] (?P<pairs>Loss: .*)$")
_B_PSNR = late_pattern(rf"^\s+PSNR: (?P<psnr>{WHOLE}) dB\s*$")
_C = late_pattern(
    r"^Epoch (?P<epoch>\d+) \| Stage (?P<stage>\d{1,6}) \| Batch (?P<at>\d+)/(?P<of>\d+) \| "
    r"(?P<pairs>.*)$",
)
_RATE = late_pattern(rf"^\s*(?:LR|Learning rate): (?P<rate>{WHOLE})\s*$")
_PAIR = late_pattern(rf"(?P<name>[A-Za-z]\w*): (?P<value>{WHOLE})")
_SPEED = late_pattern(rf"(?<![\w.])(?P<value>{WHOLE}) (?P<unit>samples|batch)/s")


class CascadeReader(Reader):
    """`train/…` and `val/…` of epochs, `…_batch` of batches; misprints mended where it is named."""

    name: ClassVar[str] = "cascade"
    bars: tuple[str, ...] = ("[Train]",)
    marks: tuple[str, ...] = (
        "[Train]",
        "Epoch ",
        "Stage",
        "Train ",
        "Val ",
        "PSNR",
        "Metrics",
        "LR",
        "Learning",
    )
    notes: ClassVar[tuple[str, ...]] = ("…_batch is one batch, not the epoch's mean",)
    ambiguous: ClassVar[tuple[str, ...]] = ("ssim", "ssim_batch")
    corrections: ClassVar[tuple[str, ...]] = (
        "regression's SSIM is printed as 1 − SSIM: that is ssim_loss_batch here",
        "a PSNR or loss of exactly 0, which the program prints when it has none, is left out",
    )
    _stage = 0
    _phase: str | None = None
    _before = 0.0
    _epoch: float | None = None
    _epochs: float | None = None
    _per_epoch: float | None = None
    _step: float | None = None
    _last_stage = True
    _from_b = False
    _heading = False

    def read(self, line: str) -> Sample | None:
        """A stage, a bar, a batch, or a line of an epoch's block."""
        if stage := _STAGE.match(line):
            return self._enter(int(stage["stage"]), int(stage["stages"]))
        if "[Train]" in line:
            return self._bar(line)
        if heading := _HEADING.match(line):
            self._epoch, self._epochs = number(heading["epoch"]), number(heading["epochs"])
            self._heading = True
            return self._at({})
        if means := _MEANS.match(line):
            return self._at(self._means(means["kind"].lower(), means["pairs"]))
        if metrics := _METRICS.match(line):
            values = pairs_in(_PAIR, metrics["pairs"])
            # Only where a preset names this reader: in another program the line would be right.
            if self.named and not values.get("psnr", 1.0):
                del values["psnr"]
            return self._at(values)
        if batch := _C.match(line) or _B.match(line):
            return self._batch(batch)
        if self._from_b and (psnr := _B_PSNR.match(line)):
            return self._at({"val/psnr": number(psnr["psnr"])})
        if self._heading and (rate := _RATE.match(line)):
            return self._at({"learning_rate": number(rate["rate"])})._replace(step=self._begins())
        return None

    def _begins(self) -> float | None:
        """The step before the first one of the epoch whose heading was seen last."""
        if self._epoch is None or self._per_epoch is None:
            return None
        return max(self._step or 0.0, self._before + (self._epoch - 1) * self._per_epoch)

    def _enter(self, stage: int, stages: int | None) -> Sample:
        if stage != self._stage:
            # The steps of the stage before are added from now on.
            self._before = self._step or 0.0
            self._epoch = self._epochs = None
        self._stage, self._last_stage = stage, stages == stage
        self._phase = f"stage {stage}/{stages}" if stages else f"stage {stage}"
        return Sample(phase=self._phase)

    def _bar(self, line: str) -> Sample | None:
        bar = read_bar(line)
        if bar is None or bar.epoch is None or bar.total is None:
            return None
        self._epoch, self._epochs, self._per_epoch = bar.epoch, bar.epochs, bar.total
        # Each stage counts its own epochs and batches from the start.
        self._step = self._before + (bar.epoch - 1) * bar.total + bar.done
        return self._at({f"{name}_batch": value for name, value in bar.values.items()}, bar.pace)

    def _batch(self, found: "re.Match[str]") -> Sample:
        values = pairs_in(_PAIR, found["pairs"])
        if "stage" in found.groupdict():
            if int(found["stage"]) != self._stage:
                self._enter(int(found["stage"]), None)
        else:
            self._from_b = True
            if "ssim" in values and self.named:
                values = {**values, "ssim_loss": values["ssim"], "ssim": 1 - values["ssim"]}
        self._epoch, self._per_epoch = number(found["epoch"]), number(found["of"])
        self._step = self._before + (self._epoch - 1) * self._per_epoch + number(found["at"]) + 1
        values = {f"{name}_batch": value for name, value in values.items()}
        speed = _SPEED.search(found["pairs"])
        if speed is not None:
            values[f"{speed['unit']}_per_second"] = number(speed["value"])
        return self._at(values)

    def _at(self, values: dict[str, float], pace: float | None = None) -> Sample:
        # Only the last stage's end is the run's: how long the others take is not known beforehand.
        whole = self._last_stage and self._epochs and self._per_epoch
        steps = self._before + (self._epochs or 0) * (self._per_epoch or 0) if whole else None
        return Sample(
            values, self._step, steps, self._epoch, self._epochs, pace=pace, phase=self._phase
        )

    def _means(self, kind: str, text: str) -> dict[str, float]:
        values = pairs_in(_PAIR, text)
        values.pop("time", None)
        if self.named and "total" not in values and "psnr" in values and values.get("loss") == 0:
            del values["loss"]
        return {f"{kind}/{name}": value for name, value in values.items()}
