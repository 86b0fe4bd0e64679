"""The voxelization network's log, in its two forms.

Facts: pcdiff-implant (MIT), voxelization/train.py, after Shape-As-Points. The log file's form has
no times of day: `[Epoch 07] it=1370, loss=0.0123 loss_psr=0.0123 time=1.234 / 1690.12`. Epochs and
iterations count from 0, the loss is that of one batch, the second time is the total in seconds. The
later form has a tqdm bar per epoch (`Epoch 001/1300: 100%|…`, from 1, with one batch's loss and the
mean so far) and a summary whose loss is the epoch's mean.
"""

from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.sample import Sample, metric_name

_STEP = late_pattern(
    rf"^\[Epoch (?P<epoch>\d+)\] it=(?P<it>\d+), (?P<pairs>.*?)time=(?P<last>{WHOLE}) / "
    rf"(?P<all>{WHOLE})"
)
_BAR = late_pattern(r"^Epoch \d{3,}/\d+: .*\|")
_PAIR = late_pattern(rf"(?P<name>[A-Za-z_]\w*)=(?P<value>{WHOLE})")
_VALIDATION = late_pattern(rf"^\s*(?:Validation )?[Mm]etric \((?P<name>\w+)\): (?P<value>{WHOLE})")
_L1 = late_pattern(rf"^\s*(?P<name>psr_l[12]): (?P<value>{WHOLE})")
_SUMMARY = late_pattern(r"^Epoch (?P<epoch>\d+)/(?P<epochs>\d+) Summary:")
_LOSS = late_pattern(rf"^\s+Loss: (?P<loss>{WHOLE})(?: \((?P<parts>.*)\))?")
_SETTING = late_pattern(
    r"^\s*(?P<what>Total epochs|Iterations per epoch|Batch size):\s+(?P<value>\d+)"
)


class VoxelizationReader(Reader):
    """`loss_batch` of single batches, `loss` of whole epochs, `val/psr_l2` and `val/psr_l1`."""

    name: ClassVar[str] = "voxelization"
    bars: tuple[str, ...] = ("Epoch ",)
    marks: tuple[str, ...] = (
        "Epoch",
        "etric (",
        "psr_l",
        "Loss: ",
        "Total epochs",
        "Iterations per",
        "Batch size",
    )
    notes: ClassVar[tuple[str, ...]] = ("loss_batch is one batch, loss an epoch's mean",)
    _per_epoch: float | None = None
    _epochs: float | None = None
    _epoch: float | None = None
    _step: float | None = None
    _in_summary = False

    def read(self, line: str) -> Sample | None:
        """A step, a bar, a line of a summary or a validation."""
        if step := _STEP.match(line):
            values = {
                _batch_name(pair["name"]): number(pair["value"])
                for pair in _PAIR.finditer(step["pairs"])
            }
            # Both count from 0 in this form, and finished steps are counted here.
            self._epoch, self._step = number(step["epoch"]) + 1, number(step["it"]) + 1
            pace = number(step["last"])
            return Sample(values, self._step, self._steps(), self._epoch, self._epochs, pace=pace)
        if _BAR.match(line):
            return self._bar(line)
        if setting := _SETTING.match(line):
            return self._setting(setting["what"], number(setting["value"]))
        if heading := _SUMMARY.match(line):
            self._epoch, self._epochs = number(heading["epoch"]), number(heading["epochs"])
            self._in_summary = True
            return Sample(epoch=self._epoch, epochs=self._epochs)
        # `Loss:` is in many lines; only the one after the heading is the epoch's mean.
        if self._in_summary and (loss := _LOSS.match(line)):
            self._in_summary = False
            parts = {
                pair["name"]: number(pair["value"]) for pair in _PAIR.finditer(loss["parts"] or "")
            }
            return self._held_out({"loss": number(loss["loss"]), **parts})
        if found := _VALIDATION.match(line) or _L1.match(line):
            return self._held_out({f"val/{found['name']}": number(found["value"])})
        return None

    def _bar(self, line: str) -> Sample | None:
        bar = read_bar(line)
        # A bar with values but without `avg_loss` is that of another program.
        if (
            bar is None
            or bar.epoch is None
            or bar.total is None
            or (bar.values and "avg_loss" not in bar.values)
        ):
            return None
        self._per_epoch, self._epoch, self._epochs = bar.total, bar.epoch, bar.epochs
        self._step = (bar.epoch - 1) * bar.total + bar.done
        values = {
            _batch_name(name) if name != "avg_loss" else "loss_so_far": v
            for name, v in bar.values.items()
        }
        return Sample(values, self._step, self._steps(), bar.epoch, bar.epochs, pace=bar.pace)

    def _setting(self, what: str, value: float) -> Sample:
        if what == "Total epochs":
            self._epochs = value
        elif what == "Iterations per epoch":
            self._per_epoch = value
        else:
            return Sample(batch=value)
        return Sample(epochs=self._epochs)

    def _held_out(self, values: dict[str, float]) -> Sample:
        return Sample(values, self._step, None, self._epoch, self._epochs)

    def _steps(self) -> float | None:
        return self._epochs * self._per_epoch if self._epochs and self._per_epoch else None


def _batch_name(name: str) -> str:
    return f"{metric_name(name)}_batch"
