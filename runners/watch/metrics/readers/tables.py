"""Tables: boxes of baselines; columns of fastai, YOLO, StyleGAN and nerfstudio; wandb's end."""

import re
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import number, seconds, seconds_of_parts, whole_number
from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader
from runners.watch.metrics.sample import Sample, metric_name

_MOST_ROWS = 300
"""A table of another kind, which nothing closes, must not fill the memory."""


class BaselinesReader(Reader):
    """A box of `| name | value |` rows, as of OpenAI's baselines and what descends from them.

    The step is stable-baselines3's `time/total_timesteps`, or a row `step` (guided-diffusion);
    Spinning Up has a row `Epoch`, counted from 0.
    """

    name: ClassVar[str] = "baselines3"
    marks: tuple[str, ...] = ("|", "-----")
    _row: ClassVar[re.Pattern[str]] = late_pattern(r"^\|(?P<name>[^|]+)\|(?P<value>[^|]*)\|\s*$")
    _rows: dict[str, float] | None = None
    _section = ""
    _known = False

    def read(self, line: str) -> Sample | None:
        """The whole box, when it is closed."""
        if line.startswith("-----"):
            rows, self._rows = self._rows, {}
            self._section = ""
            return self._sample(rows) if rows else None
        row = self._row.match(line) if self._rows is not None else None
        # A line that is not a row closes the box: the next one starts from nothing.
        if row is None or self._rows is None:
            self._rows = None
            return None
        name, value = row["name"].strip(), whole_number(row["value"])
        if name.endswith("/") and not row["value"].strip():
            self._section = name
            self._known = True
        elif value is not None and len(self._rows) < _MOST_ROWS:
            self._rows[self._section + name if row["name"].startswith("    ") else name] = value
        return CLAIMED if self._known else None

    def _sample(self, rows: dict[str, float]) -> Sample | None:
        # A box without a section or a place is any table.
        if not self._known and not {"step", "Epoch"} & rows.keys():
            return None
        epoch, timesteps = rows.pop("Epoch", None), rows.pop("time/total_timesteps", None)
        if epoch is not None:
            self.from_zero = self.from_zero or epoch == 0
            epoch += self.from_zero
        step = rows.pop("step", None) if timesteps is None else timesteps
        values = {metric_name(name): value for name, value in rows.items()}
        unit = "" if timesteps is None else "timesteps"
        return Sample(values, step, epoch=epoch, unit=unit)


class FastaiReader(Reader):
    """fastai: a heading `epoch train_loss … time`, a row per epoch from 0, bars of fastprogress."""

    name: ClassVar[str] = "fastai"
    marks: tuple[str, ...] = ("train_loss",)
    notes: ClassVar[tuple[str, ...]] = ("epochs are counted from 1; fastai's table from 0",)
    _heading: ClassVar[re.Pattern[str]] = late_pattern(r"^epoch\s{2,}train_loss(?:\s{2,}\S+)+\s*$")
    _bar: ClassVar[re.Pattern[str]] = late_pattern(
        r"^(?:Epoch (?P<epoch>\d+)/(?P<epochs>\d+) : )?\|[^|]*\|\s*[\d.]+%\s*"
        r"\[(?P<done>\d+)/(?P<total>\d+) [\d:]+<[\d:?]*(?:\.\.\.)?(?:\s(?P<loss>[\d.eE+-]+|nan))?\]"
    )

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._epochs: float | None = None
        self._per_epoch: float | None = None
        self._bar_epoch: float | None = None

    def read(self, line: str) -> Sample | None:
        """A heading, a row or a bar."""
        if self._heading.match(line):
            # The rows have no mark of their own, so from now on every line is asked for.
            self._columns, self.marks = line.split(), ("",)
            self._per_epoch = self._bar_epoch = None
            return CLAIMED
        if not self._columns:
            return None
        if found := self._bar.match(line):
            return self._progress(found)
        cells = line.split()
        if len(cells) != len(self._columns) or not cells[0].isdecimal():
            return None
        epoch = number(cells[0]) + 1
        values: dict[str, float] = {}
        for name, cell in zip(self._columns[1:], cells[1:], strict=True):
            value = seconds(cell) if ":" in cell else whole_number(cell)
            if value is not None:
                values["epoch_seconds" if name == "time" else metric_name(name)] = value
        steps = self._per_epoch
        return Sample(
            values,
            epoch * steps if steps else None,
            steps * self._epochs if steps and self._epochs else None,
            epoch,
            self._epochs,
            over=epoch,
        )

    def _progress(self, bar: "re.Match[str]") -> Sample | None:
        epoch = number(bar["epoch"]) if bar["epoch"] else 1.0
        self._epochs = number(bar["epochs"]) if bar["epochs"] else self._epochs
        done, total = number(bar["done"]), number(bar["total"])
        if self._bar_epoch == epoch and total != self._per_epoch and self._per_epoch:
            # The validation's bar still shows the training's loss, and its last value.
            done = total = self._per_epoch
        self._bar_epoch, self._per_epoch = epoch, total
        loss = whole_number(bar["loss"]) if bar["loss"] else None
        return Sample(
            {} if loss is None else {"smooth_loss": loss},
            (epoch - 1) * total + done,
            total * self._epochs if self._epochs else None,
            epoch,
            self._epochs,
        )


class YoloReader(Reader):
    """Ultralytics: rows under `Epoch GPU_mem …`, each with a bar; validation is the `all` row.

    YOLOv7 and YOLOv5 before 7.0 write `gpu_mem` and call their losses `box`, `obj`, `cls`.
    """

    name: ClassVar[str] = "yolo"
    bars: tuple[str, ...] = ("%|",)
    marks: tuple[str, ...] = ("GPU_mem", "gpu_mem")
    _row: ClassVar[re.Pattern[str]] = late_pattern(
        r"^\s+(?P<epoch>\d+)/(?P<epochs>\d+)\s+(?P<rest>\S.*)$"
    )

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._validation: list[str] = []
        self._epoch: float | None = None
        self._epochs: float | None = None
        self._per_epoch: float | None = None
        self.from_zero = False

    def read(self, line: str) -> Sample | None:
        """A heading, a redraw of an epoch's row, or the validation of all classes."""
        cells = line.split()
        if cells[:1] == ["Epoch"] and {"GPU_mem", "gpu_mem"} & {*cells}:
            self._columns, self.marks = cells[2:], ("",)
            return CLAIMED
        if not self._columns:
            return None
        if "Class" in cells[:1] and {"mAP50", "mAP@.5"} & {*cells}:
            self._validation = _validation_names(line)
            return CLAIMED
        if cells[:1] == ["all"] and len(cells) == len(self._validation) + 1:
            return self._validated(cells[1:])
        row = self._row.match(line)
        return self._train(row) if row else None

    def _train(self, row: "re.Match[str]") -> Sample:
        rest, _, bar_text = row["rest"].partition(": ")
        cells = rest.split()
        # Ultralytics counts from 1 since version 8, YOLOv5 from 0.
        self.from_zero = self.from_zero or row["epoch"] == "0"
        self._epoch = number(row["epoch"]) + self.from_zero
        self._epochs = max(number(row["epochs"]) + self.from_zero, self._epoch)
        values = {
            metric_name(name): value
            for name, cell in zip(self._columns, cells[1:], strict=False)
            if (name.endswith("loss") or name in _OLD_LOSSES)
            and (value := whole_number(cell)) is not None
        }
        bar = read_bar(bar_text)
        if bar is None or bar.total is None:
            return Sample(values, None, None, self._epoch, self._epochs)
        self._per_epoch = bar.total
        before = (self._epoch - 1) * bar.total
        steps = self._epochs * bar.total
        return Sample(values, before + bar.done, steps, self._epoch, self._epochs, pace=bar.pace)

    def _validated(self, cells: list[str]) -> Sample:
        values = {
            f"val/{name}": value
            for name, cell in zip(self._validation, cells, strict=True)
            if name not in ("images", "instances", "labels")
            and (value := whole_number(cell)) is not None
        }
        return Sample(values, None, None, self._epoch, self._epochs)


_OLD_LOSSES = ("box", "obj", "cls", "total")


def _validation_names(line: str) -> list[str]:
    """`Images Instances Box(P R mAP50 mAP50-95)`: names in brackets belong to the word before."""
    names, group = [], ""
    for word in line.partition(": ")[0].split()[1:]:
        if "(" in word:
            group, _, word = word.partition("(")
            group = "" if group == "Box" else f"{group.lower()}/"
        called = {"P": "precision", "R": "recall"}.get(word.rstrip("):"), word.rstrip("):").lower())
        names.append(group + called)
    return names


class StyleganReader(Reader):
    """StyleGAN's and EDM's ticks: `tick 3     kimg 12.0     time 4m 30s     sec/tick 60.2 …`.

    A step is a thousand images.
    """

    name: ClassVar[str] = "stylegan"
    marks: tuple[str, ...] = ("kimg",)
    _tick: ClassVar[re.Pattern[str]] = late_pattern(r"^tick \d+\s+kimg (?P<kimg>[\d.]+)\s+time ")
    _total: ClassVar[re.Pattern[str]] = late_pattern(r"^Training for (?P<total>\d+) kimg\b")
    _steps: float | None = None

    def read(self, line: str) -> Sample | None:
        """How long the training is, or a tick."""
        if total := self._total.match(line):
            self._steps = number(total["total"])
            return Sample(steps=self._steps)
        tick = self._tick.match(line)
        if tick is None:
            return None
        values: dict[str, float] = {}
        for field in re.split(r"\s{2,}", line[tick.end() :].strip())[1:]:
            name, _, text = field.partition(" ")
            if (value := whole_number(text)) is not None:
                values[metric_name(name)] = value
        pace = values.get("sec/kimg")
        return Sample(values, number(tick["kimg"]), self._steps, pace=pace, unit="kimg")


class NerfstudioReader(Reader):
    """nerfstudio's rows `100 (0.33%)   43.1 ms   39 s, 300.7 ms` under `Step (% Done)`.

    The newest rows are printed again with each new one.
    """

    name: ClassVar[str] = "nerfstudio"
    marks: tuple[str, ...] = ("Step (% Done)",)
    _row: ClassVar[re.Pattern[str]] = late_pattern(
        r"^\s*(?P<step>\d+) \([\d.]+%\)\s{2,}(?P<pace>[\d.]+ m?s)\s{2,}"
        r"(?P<eta>\d+ [dhms].*?)(?:\s{2,}|$)"
    )
    _step = -1.0

    def read(self, line: str) -> Sample | None:
        """The heading, or a row that is new."""
        if "Step (% Done)" in line:
            # The rows have no mark of their own, so from now on every line is asked for.
            self.marks = ("",)
            return CLAIMED
        row = self._row.match(line)
        if row is None:
            return None
        step = number(row["step"])
        if step <= self._step:
            return CLAIMED
        self._step, self.sure = step, True
        return Sample(
            step=step, pace=seconds_of_parts(row["pace"]), eta=seconds_of_parts(row["eta"])
        )


class WandbSummaryReader(Reader):
    """wandb's lines when a run ends: `wandb: Run summary:` and one name with a value per line."""

    name: ClassVar[str] = "wandb"
    marks: tuple[str, ...] = ("wandb:",)
    _row: ClassVar[re.Pattern[str]] = late_pattern(r"^wandb:\s+(?P<name>\S+)\s+(?P<value>\S+)\s*$")
    _open = False

    def read(self, line: str) -> Sample | None:
        """One line of the summary; everything else that wandb prints is not a metric."""
        if line.startswith("wandb: Run summary:"):
            self._open = True
            return CLAIMED
        row = self._row.match(line) if self._open else None
        if row is None:
            self._open = False
            return CLAIMED
        value = whole_number(row["value"])
        if value is None or row["name"].startswith("_"):
            return CLAIMED
        return Sample({metric_name(row["name"]): value})
