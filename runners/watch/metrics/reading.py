"""Which reader reads a run's output: what its preset names, or the one whose lines come first."""

import re
from collections.abc import Iterable

import msgspec

from runners.model.spec import MetricRule
from runners.watch.metrics.readers import SPECIFIC, make_reader
from runners.watch.metrics.readers.patterns import PatternReader
from runners.watch.metrics.readers.reader import Reader
from runners.watch.metrics.sample import Sample

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_RANK = re.compile(rb"^\s*\[(?:[Rr]ank|RANK|default|worker)[ :=]{0,2}0*(\d{1,5})\]:?")
_DIGIT = re.compile(rb"\d|nan|NaN")
_LONGEST = 1000
_GENERAL = ("tqdm", "pairs")
_SURE = 500
"""So many lines that only a general reader understood, and no other is tried any more."""


class OutputReader:
    """Reads the lines of one attempt. `names` says by which readers, and whether that was
    guessed.
    """

    def __init__(self, rule: MetricRule) -> None:
        self.rule = rule
        self.guessing = not rule.readers and not rule.patterns
        self._readers: list[Reader] = [PatternReader(rule.patterns)] if rule.patterns else []
        self._readers += [make_reader(name) for name in rule.readers if name != "none"]
        self._candidates: list[Reader] = []
        self._begun = False
        self.changed = False
        self._general = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The readers in use; none while nothing matched."""
        return tuple(reader.name for reader in self._readers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to take the values for what they are."""
        return tuple(note for reader in self._readers for note in reader.notes)

    def read(self, line: bytes) -> Sample | None:
        """What a line says; other ranks than the first say the same again and are passed over."""
        if not _DIGIT.search(line):
            return None
        if b"\x1b" in line:
            line = _ESCAPE.sub(b"", line)
        rank = _RANK.match(line)
        if rank is not None:
            if int(rank[1]):
                return None
            line = line[rank.end() :].removeprefix(b" ") if rank else line
        text = line[:_LONGEST].decode("utf-8", "replace").rstrip()
        if not self._begun:
            # Only now: most programs that are looked at when a panel opens have printed nothing
            # yet, or tell events.
            self._begun = True
            self._candidates = (
                [make_reader(name) for name in (*SPECIFIC, *_GENERAL)] if self.guessing else []
            )
        sample = self._guess(text) if self._candidates else _first(self._readers, text)
        return None if sample is None else self._put_right(sample)

    def _guess(self, text: str) -> Sample | None:
        """Try them all until one that is particular to a kind of program finds values; till then
        the general ones.
        """
        found: Sample | None = None
        for reader in self._candidates:
            sample = reader.read(text)
            if sample is None:
                continue
            if not sample.values:
                found = found or sample
                continue
            if reader.name not in _GENERAL:
                self.changed = bool(self._readers)
                self._readers, self._candidates = [reader], []
            else:
                if reader not in self._readers:
                    self._readers.append(reader)
                self._general += 1
                if self._general >= _SURE:
                    self._candidates = []
            return sample
        return found

    def _put_right(self, sample: Sample) -> Sample:
        rule = self.rule
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


def _moved(value: float | None, name: str, rule: MetricRule) -> float | None:
    return None if value is None else value + rule.offset.get(name, 0.0)


def _first(readers: Iterable[Reader], text: str) -> Sample | None:
    for reader in readers:
        sample = reader.read(text)
        if sample is not None:
            return sample
    return None


def rule_without_guess(rule: MetricRule, names: tuple[str, ...]) -> MetricRule:
    """The rule with the readers that were found, for the next attempt of the same program."""
    known = [name for name in names if name != PatternReader.name]
    return msgspec.structs.replace(rule, readers=tuple(known)) if not rule.patterns else rule
