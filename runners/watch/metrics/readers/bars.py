"""tqdm's progress bars, and the values in and around them.

The bar's form is tqdm's own (`std.py`, format_meter):
`DESC:  48%|███   | 12/25 [00:58<01:03,  4.9s/it, loss=0.61]`, without a total
`DESC: 12it [00:58,  4.9s/it]`. Bars are redrawn over `\\r`; every redraw is a line here.
"""

import math
import re
from functools import lru_cache
from typing import ClassVar, NamedTuple

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.readers.named_values import is_count, named_values
from runners.watch.metrics.sample import Sample, metric_name

# Where two parts of an expression both take spaces, a line padded with hundreds takes minutes.
_BAR = late_pattern(
    r"^(?:\s*|(?P<desc>.*?):\s+)(?P<percent>\d+)%\|(?P<bar>[^|]*)\|"
    r"\s*(?P<done>[\d.]+)(?P<kilo>[kMGT]?)(?:[A-Z]?i?B)?"
    r"/(?P<total>[\d.]+)(?P<kilos>[kMGT]?)(?:[A-Z]?i?B)?"
    r"\s*\[(?P<inside>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]?"
)
_ENDLESS = late_pattern(
    r"^(?:(?P<desc>.*?):\s+|\s*)(?P<done>\d+)\s?(?P<unit>[A-Za-z]+)"
    r"\s+\[(?P<inside>\d+:[^\]]*)\]"
)
_IGNITE = late_pattern(
    r"^(?:(?P<desc>.*?):\s+|\s*)\[(?P<done>\d+)/(?P<total>\d+)\]\s+\d+%\|[^|,\[]*\|?"
    r"(?P<values>(?:, [^,\[]+=[^,\[]+)*)\s*\[(?P<inside>\d+:[^\]]*)\]"
)
"""PyTorch-Ignite's: `Epoch [1/5]: [2/120]   2%|▏         , loss=0.687 [00:00<00:08]`."""
_PACE = late_pattern(
    r"^\s*(?:(?P<per>[\d.]+)(?P<what>[^\d\s/]*)/s|(?P<each>[\d.]+)s/(?P<one>\S+)|\?.*)\s*$"
)
_SPLIT = late_pattern(r", (?=[^ ])|,(?=\s)")
_EPOCH = late_pattern(
    r"\bepochs?\b[\s:#\[(]*(?P<epoch>\d+)(?![\w%]|\.\d)(?:\s*(?:/|of)\s*(?P<epochs>\d+))?",
    re.IGNORECASE,
)
_EPOCHS_ALONE = late_pattern(r"^(?:training\s+)?epochs?$", re.IGNORECASE)
_TUNE = late_pattern(r"^(?P<epoch>\d+)\|(?P<step>\d+)\|(?P<rest>.*)$")
_OTHER = late_pattern(
    r"\b(?:val(?:id\w*)?|evaluat\w*|eval|test\w*|predict\w*|sampl\w*|generat\w*|sanity\w*"
    r"|download\w*|load\w*|map|filter|tokeniz\w*|sav(?:e|ing)|writ\w*|cach\w*|preproc\w*|fetch\w*"
    r"|uploading|extract\w*|shards?|checkpoint\w*|resolving)\b",
    re.IGNORECASE,
)
_MEAN = late_pattern(r"(?:^|[_/])(?:avg|average|mean|running)(?:$|[_/])")
"""Names of means over a bar so far."""
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Bar(NamedTuple):
    """One redraw of a bar; `pace` in seconds per item of `unit`, unknown is None."""

    text: str
    done: float
    total: float | None
    pace: float | None
    unit: str
    values: dict[str, float]
    epoch: float | None
    epochs: float | None
    step: float | None = None
    after: str = ""

    @property
    def is_training(self) -> bool:
        """False for validation, downloads and the like, whose steps are not the run's."""
        return not _OTHER.search(self.text)

    @property
    def counts_epochs(self) -> bool:
        """True for a bar over the epochs themselves."""
        return bool(_EPOCHS_ALONE.match(self.text)) or self.unit in ("epoch", "epochs", "ep")


@lru_cache(maxsize=2)
def read_bar(line: str) -> Bar | None:
    """The bar that a line draws, or None; cached, as several readers ask for the same line."""
    found = None
    if "|" in line:
        found = _BAR.match(line) or _IGNITE.match(line)
    elif "[" in line:
        found = _ENDLESS.match(line)
    if found is None:
        return None
    parts = found.groupdict()
    text = (parts["desc"] or "").strip()
    rest = _SPLIT.split(parts["inside"])[1:]
    rest += (parts.get("values") or "").split(", ")[1:]
    pace, unit = None, parts.get("unit") or "it"
    if rest and (rate := _PACE.match(rest[0])):
        rest = rest[1:]
        if rate["per"] and _some(rate["per"]):
            pace, unit = 1 / float(rate["per"]), rate["what"]
        elif rate["each"] and _some(rate["each"]):
            pace, unit = float(rate["each"]), rate["one"]
    done, total = _some(parts["done"]), _some(parts.get("total") or "")
    if done is None:
        return None
    epoch = _EPOCH.search(text)
    bar = Bar(
        text,
        done * _THOUSANDS[parts.get("kilo") or ""],
        total * _THOUSANDS[parts.get("kilos") or ""] if total else None,
        pace,
        unit,
        _postfix(rest),
        float(epoch["epoch"]) if epoch else None,
        float(epoch["epochs"]) if epoch and epoch["epochs"] else None,
        after=line[found.end() :].strip(),
    )
    return _with_description(bar) if ":" in text or "=" in text or "|" in text else bar


def _some(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _postfix(parts: list[str]) -> dict[str, float]:
    """`loss=0.61` and the like; what is not understood as a whole is left out."""
    values: dict[str, float] = {}
    for part in parts:
        name, sign, text = part.partition("=")
        if not sign:
            name, sign, text = part.partition(":")
        value = whole_number(text) if sign else None
        called = metric_name(name)
        if value is not None and called and called != "v_num":
            values[called] = value
    return values


def _with_description(bar: Bar) -> Bar:
    """A bar whose description has values: `loss: 0.5`, or torchtune's `1|80|Loss: 0.5`."""
    tune = _TUNE.match(bar.text)
    if tune is not None:
        values = {**named_values(tune["rest"]), **bar.values}
        return bar._replace(values=values, epoch=float(tune["epoch"]), step=float(tune["step"]))
    return bar._replace(values={**named_values(bar.text), **bar.values})


class TqdmReader(Reader):
    """Any program with tqdm bars; epochs count from 1, and unnamed bars in a row are one each."""

    name: ClassVar[str] = "tqdm"
    bars: tuple[str, ...] = ("%|",)
    marks: tuple[str, ...] = ("%|", "[0", "[1", "[2")
    _epoch = 0.0
    _epochs: float | None = None
    _named = False
    _by_name = False
    _done = 0.0
    _total: float | None = None
    _at_epoch: float | None = None
    _is_whole: bool | None = False

    def read(self, line: str) -> Sample | None:
        """The step, the totals and the values of a bar."""
        bar = read_bar(line)
        if bar is None:
            return None
        placed = self.place(bar)
        if placed is None or not bar.total or bar.done >= bar.total or bar.counts_epochs:
            return placed
        return placed._replace(running=tuple(filter(_MEAN.search, placed.values)))

    def place(self, bar: Bar) -> Sample | None:
        """Where in the run a bar is."""
        if not bar.is_training:
            kind = metric_name(_EPOCH.sub("", bar.text.partition(":")[0])) or "other"
            return Sample({f"{kind}/{k}": v for k, v in bar.values.items()})
        values = {name: value for name, value in bar.values.items() if not is_count(name)}
        known = self._epochs or self.epochs
        self._see_whether_whole(bar)
        if bar.step is not None:
            # NaN withdraws a total that was reported before.
            whole = bar.total * known if bar.total and known else math.nan
            return Sample(values, bar.step, whole, bar.epoch, self._epochs, pace=bar.pace)
        if bar.counts_epochs:
            self._named, self._epochs = True, bar.total
            # The bar counts finished epochs; the next one is running, but after the last.
            self._epoch = min(bar.done + 1, bar.total or bar.done + 1)
            return Sample(values, epoch=self._epoch, epochs=bar.total, over=bar.done)
        withdrawn = None
        if bar.epoch is not None:
            # The bar was drawn before it had its name: its total is that of an epoch.
            withdrawn = None if self._named or not self._epoch else math.nan
            self._named = self._by_name = True
            self.from_zero = self.from_zero or bar.epoch == 0
            self._epoch, self._epochs = bar.epoch + self.from_zero, bar.epochs or self._epochs
            known = self._epochs or self.epochs
        elif self._by_name and not bar.text and bar.done < self._done:
            return Sample(values, pace=bar.pace)  # the next epoch's bar, without its name yet
        elif not self._named and bar.done and 0 < self._done - bar.done < (bar.total or 0) / 2:
            # Another process draws one of its own, behind: from now on nobody counts them.
            self.missed = True
            return Sample(values, pace=bar.pace)
        elif not self._named and self.missed and self._epoch != 1:
            # Which of many unnamed bars this is, nobody has counted.
            return Sample(values, pace=bar.pace)
        elif not self._named and (bar.done < self._done or not self._epoch):
            # A bar that starts over, without a name: the next epoch has begun.
            self._epoch += 1
        self._done = bar.done
        before = (self._epoch - 1) * bar.total if bar.total and self._epoch else 0.0
        steps = bar.total * known if bar.total and known else None
        if self._is_whole is not False:
            steps = bar.total if self._is_whole else math.nan
        elif not self._named and not known:
            # One bar for everything, as far as is known; a second one shows that it was not.
            steps = bar.total if self._epoch == 1 else math.nan
        epoch = self._epoch if self._named or self._epoch > 1 else None
        step = before + bar.done
        if bar.epoch is not None:
            # diffusers prints the step of the whole run beside each epoch's own.
            step = max(step, bar.values.get("global_step", bar.values.get("step", step)))
        return Sample(values, step, steps or withdrawn, epoch, self._epochs, pace=bar.pace)

    def _see_whether_whole(self, bar: Bar) -> None:
        """Whether a bar goes over all epochs, as that of a heading in the middle of it may.

        One that went on after the next epoch's heading does, or whose total was stated for the
        whole run; after the first heading of all nobody knows yet.
        """
        if bar.total is None or bar.epoch is not None:
            self._is_whole = False
        elif bar.total == self.stated:
            self._is_whole = True
        elif bar.total != self._total or bar.done < self._done:
            self._is_whole = False
        elif bar.done > self._done and self.epoch is not None and self.epoch != self._at_epoch:
            self._is_whole = True if self._at_epoch else None
        self._total, self._at_epoch = bar.total, self.epoch
