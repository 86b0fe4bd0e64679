"""Metrics in Lightning's `metrics.csv`, Keras' CSVLogger and the Trainer's `trainer_state.json`."""

import errno
from collections.abc import Iterator
from pathlib import Path

from runners.host.bounded_glob import SearchBudget, entries_of, is_folder_entry
from runners.host.files import modified_at, read_plain
from runners.host.tail import Follower
from runners.state.boundary import cannot_be_read
from runners.state.decoding import decode, python_json
from runners.watch.metrics.file_source import FileSource
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.sample import Sample, metric_name

_NAMES = ("metrics.csv", "trainer_state.json")
_HUGE = 64 << 20
_BLOCK = 1 << 20


class TableFile:
    """A CSV file whose heading names a step or an epoch; `poll` gives what was appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._follower = Follower(path, redraws=False)
        self._columns: list[str] = []
        self._mark = ","
        self._zero = False

    def poll(self) -> Iterator[Sample]:
        """A sample for each new row."""
        more = True
        while more:
            news = self._follower.poll(_BLOCK)
            if news.restarted:
                self._columns = []
            for line in news.lines:
                sample = self._row(line.decode("utf-8", "replace").rstrip("\r"))
                if sample is not None:
                    yield sample
            more = news.more and bool(news.lines)

    def _row(self, line: str) -> Sample | None:
        from csv import Error, reader  # few runs have a table

        if not self._columns:
            line = line.removeprefix("\ufeff")
            self._mark = next((mark for mark in ";\t" if mark in line and "," not in line), ",")
        try:
            cells = [cell.strip() for cell in next(reader([line], delimiter=self._mark), [])]
        except Error:
            return None  # half a row, or none
        if not self._columns:
            # Another table: the empty column makes all its rows differ in length and be skipped.
            self._columns = cells if {"step", "epoch"} & set(cells) else [""]
            return None
        # A row still being written, or one of a version with other columns.
        if len(cells) != len(self._columns):
            return None
        found = {name: whole_number(cell) for name, cell in zip(self._columns, cells, strict=True)}
        values = {name: value for name, value in found.items() if value is not None}
        step, epoch = values.pop("step", None), values.pop("epoch", None)
        # An epoch 0 shows that the program counts from 0; ours count from 1.
        self._zero = self._zero or epoch == 0
        epoch = None if epoch is None else epoch + self._zero
        if not values:
            return None
        return Sample(
            {metric_name(name): value for name, value in values.items()}, step, epoch=epoch
        )


class TrainerState:
    """Hugging Face's `trainer_state.json`: the whole history, rewritten at each checkpoint."""

    def __init__(self, path: Path) -> None:
        # Its patterns take longer to compile than most runs' curves to read.
        from runners.watch.metrics.readers.objects import ObjectReader

        self.path = path
        self.problem = ""
        self._seen: tuple[int, int] = (0, 0)
        self._reader = ObjectReader()

    def poll(self) -> Iterator[Sample]:
        """All of its history, once it is another: a training that begins anew may replace it."""
        try:
            stat = self.path.stat()
            # The file is rewritten as a whole, so it cannot be read on from an offset.
            if (stat.st_mtime_ns, stat.st_size) == self._seen:
                return
            content = read_plain(self.path, _HUGE)
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.problem = cannot_be_read(self.path.name, error)
            return
        state = decode(content, python_json)
        if state is None:
            return
        self._seen = (stat.st_mtime_ns, stat.st_size)
        history = state.get("log_history") if isinstance(state, dict) else None
        for entry in history if isinstance(history, list) else ():
            sample = self._reader.sample_of(entry) if isinstance(entry, dict) else None
            if sample is not None and sample.step is not None:
                yield sample


class LogFileSource(FileSource[TableFile | TrainerState]):
    """The metric files of one run: those in its folder, and those that it said it writes."""

    source = "file"
    called = "metric files"
    most = 40

    def _is_of_kind(self, path: Path) -> bool:
        return path.suffix in (".csv", ".json", ".log")

    def _below(self, folder: str, budget: SearchBudget) -> list[Path]:
        # Lightning puts it in `lightning_logs/version_3`, the Trainer in `checkpoint-500`.
        return _tables_below(folder, 2, budget)

    def _open(self, path: Path) -> TableFile | TrainerState:
        return TrainerState(path) if _is_state(path) else TableFile(path)

    def _own(self, budget: SearchBudget) -> dict[Path, float]:
        # Every checkpoint has a copy with the history so far: the newest one contains the others.
        own = super()._own(budget)
        newest = max((path for path in own if _is_state(path)), key=own.__getitem__, default=None)
        for path in [path for path in self._files if _is_state(path) and path != newest]:
            del self._files[path]
        return {path: when for path, when in own.items() if not _is_state(path) or path == newest}


def _is_state(path: Path) -> bool:
    return path.suffix == ".json"


def _tables_below(folder: str, levels: int, budget: SearchBudget) -> list[Path]:
    """Files of a known name in `folder` and so many levels below; hidden folders are left out."""
    found = [path for name in _NAMES if modified_at(path := Path(folder, name))]
    if levels:
        for entry in entries_of(folder, budget):
            if entry.name[0] != "." and is_folder_entry(entry, budget):
                found += _tables_below(entry.path, levels - 1, budget)
    return found
