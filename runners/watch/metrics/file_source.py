"""Metric files of one kind that are a run's own: found as they appear, read as they grow."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.files import is_file, is_folder, modified_at
from runners.state.boundary import cannot_be_read
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.series_set import SeriesSet


class MetricFile(Protocol):
    """One file; `problem` is why it cannot be read on, empty while it can."""

    path: Path
    problem: str

    def poll(self) -> Iterator[Sample]:
        """What was written since the last call."""


F = TypeVar("F", bound=MetricFile)


class FileSource(ABC, Generic[F]):
    """The files that `patterns` name, or in folders that they name, none in `besides`.

    Those changed since `since` (unix s). Looked for at each poll: writers make new ones.
    """

    source: ClassVar[str]
    """What its series say they are from."""
    called: ClassVar[str]
    most: ClassVar[int]
    """Files that are read, of however many there are."""

    def __init__(self, patterns: Iterable[str], since: float, besides: Path | None = None) -> None:
        self.patterns = list(patterns)
        self.collection = SeriesSet(self.source)
        self._since = since
        self._besides = besides
        self._files: dict[Path, F] = {}
        self._cut = ""

    @property
    def problems(self) -> list[str]:
        """Files that could not be read on, and that not all were looked for."""
        cut = [f"{self.called}: {self._cut}"] if self._cut else []
        return cut + [file.problem for file in self._files.values() if file.problem]

    def poll(self) -> None:
        """Look for files, and read what is new in them."""
        budget = SearchBudget()
        own = self._own(budget)
        # Where one tells anew what another has told, the one that was written last counts.
        found = sorted(own, key=lambda path: (own[path], path))[-self.most :]
        if self._is_renamed(found):
            self._files, self.collection = {}, SeriesSet(self.source)
        for path in found:
            if path not in self._files:
                self._files[path] = self._open(path)
        for file in self._files.values():
            if file.problem or not budget.may_enter(str(file.path)):
                continue
            try:
                for sample in file.poll():
                    self.collection.note(sample)
            except Exception as error:  # one odd file: the others are read on
                file.problem = cannot_be_read(file.path.name, error)
        self._cut = budget.cut
        if len(own) > self.most:
            self._cut = self._cut or f"only the newest {self.most} of {len(own):,} are read"

    def _own(self, budget: SearchBudget) -> dict[Path, float]:
        """The files that are the run's, and when each was changed."""
        found: dict[Path, float] = {}
        for pattern in self.patterns:
            for place in bounded_glob(pattern, budget):
                inside = self._below(place, budget) if is_folder(place) else [Path(place)]
                found |= {path: modified_at(path) for path in filter(self._is_own, inside)}
        return found

    def _is_own(self, path: Path) -> bool:
        if not self._is_of_kind(path) or self._besides in path.parents:
            return False
        return is_file(path) and modified_at(path) >= self._since

    def _is_renamed(self, found: Sequence[Path]) -> bool:
        """Whether what was read has other names beside the files that were `found` since."""
        return False

    @abstractmethod
    def _is_of_kind(self, path: Path) -> bool:
        """Whether a file is one of these, by its name and place."""

    @abstractmethod
    def _below(self, folder: str, budget: SearchBudget) -> Iterable[Path]:
        """The files in a folder that a pattern names."""

    @abstractmethod
    def _open(self, path: Path) -> F:
        """A new one of the files."""
