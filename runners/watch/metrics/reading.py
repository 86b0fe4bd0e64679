"""Which reader reads a run's output: those its preset names, or the one whose lines match first.

A preset's own regular expressions are a reader too: each named group is a metric, or a place.
"""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.model.spec import MetricPattern, MetricRule
from runners.watch.metrics.followed import ReaderState, ReadingState
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.readers import GENERAL, SPECIFIC, make_reader
from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader
from runners.watch.metrics.sample import Sample

_ESCAPE = late_pattern(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\?)|[ -/]*[0-~])")
_RANK = late_pattern(
    rb"^(?P<before>.{0,100}?)"
    rb"\[(?:[Rr]ank|RANK|default|worker|GPU|gpu|cuda:?)[ :=]{0,2}0*(?P<rank>\d{1,5})\]:?"
)
_MAY_BE_RANK = late_pattern(rb"(?:ank|RANK|default|worker|GPU|gpu|cuda)")
_DIGIT = late_pattern(rb"\d|[nN]a[nN]|NAN|INF|[iI]nf(?:inity)?(?![A-Za-z])")
_HEADING = late_pattern(
    rb"(?:^\s*epoch\s+train_loss|^E +# |Remaining Time|Evaluation results for"
    rb"|(?:GPU|gpu)_mem|% Done|mAP50|^---|^\||Run summary|:\s*$|[Bb]est iter)"
)
"""Lines without a number that say what the numbers after them mean."""
_LONGEST = 2000
_COUNTING = ("tqdm", "pairs", "json")
"""Readers of a bar, and of lines with a step of their own beside it."""
_PLACES = ("step", "steps", "epoch", "epochs", "batch")


class OutputReader:
    """Reads the lines of one attempt; first by the readers that found something before."""

    def __init__(self, rule: MetricRule, like: "OutputReader | None" = None) -> None:
        self.rule = rule
        self.guessing = not rule.readers and not rule.patterns
        self._readers: list[Reader] = [PatternReader(rule.patterns)] if rule.patterns else []
        self._readers += [make_reader(name) for name in rule.readers if name != "none"]
        for reader in self._readers:
            reader.named = True
        self._found: set[str] = set()
        self._epoch: float | None = None
        self._epochs: float | None = None
        self._begun = False
        self._bar_at: float | None = None
        self._line_at: float | None = None
        self._agree: bool | None = None
        if like is not None:
            self._take_over(like)

    def next_attempt(self) -> "OutputReader":
        """A reader for the next attempt of the same program, which knows how it counts."""
        return OutputReader(self.rule, self)

    def _take_over(self, earlier: "OutputReader") -> None:
        if self.guessing and earlier._begun:
            self._begun, self._found = True, set(earlier._found)
            self._readers = [make_reader(reader.name) for reader in earlier._readers]
        zero = {reader.name for reader in earlier._readers if reader.from_zero}
        for reader in self._readers:
            reader.from_zero = reader.name in zero

    def state(self) -> ReadingState:
        """All that another reader needs to go on with the next line."""
        return ReadingState(
            [_reader_state(reader) for reader in self._readers],
            sorted(self._found),
            self._epoch,
            self._epochs,
            self._begun,
            self._bar_at,
            self._line_at,
            self._agree,
        )

    def go_on_from(self, state: ReadingState) -> None:
        """Go on as the reader of this output whose state it is."""
        known = {reader.name: reader for reader in self._readers}
        if self.guessing:
            names = {kept.name for kept in state.readers}.intersection((*SPECIFIC, *GENERAL))
            known |= {name: make_reader(name) for name in names}
        for kept in state.readers:
            if kept.name in known:
                _restore(known[kept.name], kept)
        # What is not known any more is of another version: the readers that are there go on.
        self._readers = [known[kept.name] for kept in state.readers if kept.name in known]
        self._found = {reader.name for reader in self._readers} & set(state.found)
        self._epoch, self._epochs, self._begun = state.epoch, state.epochs, state.begun
        self._bar_at, self._line_at, self._agree = state.bar_at, state.line_at, state.agree

    def note_gap(self) -> None:
        """Lines were left out: what was counted by them is not known any more."""
        self._epoch = self._bar_at = self._line_at = None
        for reader in self._readers:
            reader.pass_gap()

    @property
    def names(self) -> tuple[str, ...]:
        """The readers in use; none while nothing matched."""
        return tuple(
            reader.name for reader in self._readers if reader.named or reader.name in self._found
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to understand the values."""
        notes = [
            note for reader in self._readers if reader.name in self._found for note in reader.notes
        ]
        corrected = [
            note for reader in self._readers if reader.named for note in reader.corrections
        ]
        guessed = [
            f"{' and '.join(reader.ambiguous)} may be 1 − SSIM and have no best value: a preset "
            f"that says `metrics: {reader.name}` settles it"
            for reader in self._readers
            if reader.name in self._found and reader.ambiguous and not reader.named
        ]
        moved = [f"{name} {by:+g}, as the preset says" for name, by in self.rule.offset.items()]
        return (*notes, *guessed, *corrected, *moved)

    def read(self, line: bytes) -> tuple[Sample, ...]:
        """What a line says; other ranks than the first repeat it and are skipped."""
        if b"\x1b" in line:
            line = _ESCAPE.sub(b"", line)
        # Nearly all lines without a digit are done here.
        if not _DIGIT.search(line) and not _HEADING.search(line):
            return ()
        if b"[" in line and _MAY_BE_RANK.search(line) and (rank := _RANK.match(line)):
            if int(rank["rank"]):
                return ()
            line = rank["before"] + line[rank.end() :].removeprefix(b" ")
        text = line.decode("utf-8", "replace").rstrip()
        is_object = text.startswith(('{"', '{ "')) and text.endswith("}")
        text = text if is_object else _cut(text)
        if not self._begun:
            # Only now: most programs have printed nothing yet when a panel opens, or write events.
            self._begun = True
            if self.guessing:
                self._readers = [make_reader(name) for name in (*SPECIFIC, *GENERAL)]
        samples = map(self._ask, _split_behind_bar(text))
        return tuple(self._put_right(sample) for sample in samples if sample is not None)

    def finish(self) -> list[Sample]:
        """What readers still waited for when the output ended."""
        last = [reader.finish() for reader in self._readers]
        return [self._put_right(sample) for sample in last if sample is not None]

    def _ask(self, text: str) -> Sample | None:
        """Ask the specific readers, those in use first, then the general ones."""
        found: Sample | None = None
        is_guess = False
        # A long object is for its own reader alone: others would look through it for ever.
        whole, text = text, _cut(text)
        draws = "%|" in text
        # A `for … else` loop, because this runs for every reader and every line.
        for reader in self._readers:
            for mark in reader.bars if draws else reader.marks:
                if mark in text:
                    break
            else:
                continue
            sample = reader.read(whole if reader.name == "json" else text)
            if sample is None:
                continue
            if sample is CLAIMED:
                return found
            if sample.step is not None and reader.name in _COUNTING:
                sample = self._agreed(sample, reader.name == "tqdm")
            if sample.values:
                if reader.name not in self._found:
                    self._use(reader)
                self._share(sample)
                if reader.ambiguous and not reader.named:
                    sample = sample._replace(running=(*sample.running, *reader.ambiguous))
                return sample
            if reader.sure:
                self._share(sample)
                return sample
            # A heading such as `Epoch 0/10` is of many programs: until one reader's values were
            # found, the particular ones only guess that it is of theirs.
            if found is None or is_guess:
                found, is_guess = (
                    sample,
                    not (reader.named or reader.name in {*self._found, *GENERAL}),
                )
        if found is not None:
            self._share(found)
        return found

    def _agreed(self, sample: Sample, is_bar: bool) -> Sample:
        """The sample of a bar or a line, without a place that is not the run's.

        A bar may count epochs, and lines beside it the steps: then its total is not theirs. One
        that falls behind a line's step counts something else; one that comes up to it the same.
        Until either is seen, a line that is ahead of the bar has no total.
        """
        step = sample.step or 0.0
        if not is_bar:
            if sample.steps is None and self._bar_at is not None:
                self._line_at = step
                if self._agree is None and step > self._bar_at + 1:
                    return sample._replace(steps=math.nan)
            return sample
        if self._line_at is not None and self._agree is None:
            if step >= self._line_at:
                self._agree = True
            elif step < self._line_at - 1:
                self._agree = False
        self._bar_at = step
        return sample._replace(step=None, steps=math.nan) if self._agree is False else sample

    def _use(self, reader: Reader) -> None:
        """Ask this reader before others of its kind from now on."""
        self._found.add(reader.name)
        # The sort is stable: readers in use keep their order of particularity.
        self._readers.sort(
            key=lambda reader: (reader.name in GENERAL, reader.name not in self._found)
        )

    def _share(self, sample: Sample) -> None:
        """Tell every reader the epoch that one of them has found."""
        if sample.epoch != self._epoch and sample.epoch is not None:
            self._epoch = sample.epoch
            for reader in self._readers:
                reader.epoch = sample.epoch
        if sample.epochs != self._epochs and sample.epochs is not None:
            self._epochs = sample.epochs
            for reader in self._readers:
                reader.epochs = sample.epochs
        if sample.steps is not None and sample.step is None and not sample.values:
            for reader in self._readers:
                reader.stated = sample.steps

    def _put_right(self, sample: Sample) -> Sample:
        rule = self.rule
        if sample.values and sample.epoch is None and self._epoch is not None:
            sample = sample._replace(epoch=self._epoch)
        if rule.offset:
            moved = {
                name: value + rule.offset.get(name, 0.0) for name, value in sample.values.items()
            }
            sample = sample._replace(
                values=moved,
                step=_moved(sample.step, "step", rule),
                epoch=_moved(sample.epoch, "epoch", rule),
            )
        if rule.rename:
            sample = sample._replace(
                values={rule.rename.get(name, name): v for name, v in sample.values.items()}
            )
        return sample


def _cut(text: str) -> str:
    """A line's beginning; what the cut would split is no whole number any more."""
    return text if len(text) <= _LONGEST else text[: text.rfind(" ", 0, _LONGEST) + 1].rstrip()


def _split_behind_bar(text: str) -> tuple[str, ...]:
    """A bar and what was printed while it was drawn, which goes on in the bar's line."""
    if "%|" not in text and "it [" not in text:
        return (text,)
    bar = read_bar(text)
    # A dictionary of the Hugging Face Trainer is at the step of the bar before it.
    if bar is None or not bar.after or bar.after.startswith("{'"):
        return (text,)
    end = len(text.rstrip()) - len(bar.after)
    return text[:end], text[end:]


def _reader_state(reader: Reader) -> ReaderState:
    kept = ReaderState(reader.name, {}, {})
    for name, value in vars(reader).items():
        if isinstance(value, Sample):
            kept.samples[name] = value._replace(values=dict(value.values))
        elif isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
            kept.values[name] = list(value)
        elif value is None or isinstance(value, bool | int | float | str | dict):
            kept.values[name] = value
    return kept


def _restore(reader: Reader, kept: ReaderState) -> None:
    for name, value in (*kept.values.items(), *kept.samples.items()):
        if hasattr(reader, name) and not callable(getattr(reader, name)):
            is_tuple = isinstance(getattr(reader, name), tuple)
            setattr(reader, name, tuple(value) if is_tuple and isinstance(value, list) else value)


def _moved(value: float | None, name: str, rule: MetricRule) -> float | None:
    return None if value is None else value + rule.offset.get(name, 0.0)


def _number(text: str) -> float:
    """What a group caught, perhaps with the comma behind it; NaN where that is no number."""
    found = whole_number(text.rstrip(" ,;"))
    return math.nan if found is None else found


class _PresetPattern:
    """A preset's expression by RE2, which takes no line for ever, where that knows what is in it.

    Of letters, digits and spaces that are not of ASCII it knows less: there, and of look-around,
    Python's own does it.
    """

    def __init__(self, pattern: MetricPattern) -> None:
        import re2  # few presets have patterns

        options = re2.Options()
        options.log_errors = False
        self._python = self._linear = pattern.compiled()
        with suppress(re2.error):
            self._linear = re2.compile(pattern.line, options)
        self._has_letters = any(escape in pattern.line for escape in (r"\w", r"\W", r"\b", r"\B"))

    def search(self, line: str) -> "re.Match[str] | None":
        """The first match."""
        is_python = not line.isascii() and (
            self._has_letters or any(c.isspace() or c.isdecimal() for c in line if c > "\x7f")
        )
        return (self._python if is_python else self._linear).search(line)


class PatternReader(Reader):
    """A preset's patterns, the first match decides; its `(?P<name>…)` may name the metric."""

    name: ClassVar[str] = "patterns"
    bars: tuple[str, ...] = ("",)
    marks: tuple[str, ...] = ("",)

    def __init__(self, patterns: Sequence[MetricPattern]) -> None:
        self._patterns = [(_PresetPattern(pattern), pattern.offset) for pattern in patterns]

    def read(self, line: str) -> Sample | None:
        """The groups that took part in the match, moved by their offsets."""
        for pattern, offset in self._patterns:
            if found := pattern.search(line):
                groups = {
                    name: text for name, text in found.groupdict().items() if text is not None
                }
                if "name" in groups and "value" in groups:
                    groups[groups.pop("name").strip()] = groups.pop("value")
                numbers = {
                    name: _number(text) + offset.get(name, 0.0) for name, text in groups.items()
                }
                places = {
                    name: at
                    for name in _PLACES
                    if not math.isnan(at := numbers.pop(name, math.nan))
                }
                return Sample(
                    numbers,
                    places.get("step"),
                    places.get("steps"),
                    places.get("epoch"),
                    places.get("epochs"),
                    batch=places.get("batch"),
                )
        return None
