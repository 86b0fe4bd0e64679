"""Going from a run's output to the lines or the logs of its ranks, and on to the next rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual.widget import Widget

from runners.watch.logs.rank_logs import FOLDER, rank_logs
from runners.watch.logs.reader import LogSource
from tui.panel.widgets.log.messages import LogNotice
from tui.panel.widgets.log.threads import LogThreads
from tui.panel.widgets.log.window_reader import LogReader


class RankSwitch:
    """Shows the next rank in `owner`: a log of its own by `show`, or its lines of the output."""

    def __init__(
        self,
        owner: Widget,
        threads: LogThreads,
        reader: Callable[[], LogReader],
        show: Callable[[Path, str], None],
        filtered: Callable[[], None],
    ) -> None:
        """`reader`: that of the log shown now; `filtered` is called when it shows other lines."""
        self._owner = owner
        self._threads = threads
        self._show = show
        self._filtered = filtered
        self._reader = reader
        self._title = ""

    def show_next(self, title: str) -> None:
        """From all ranks to the first one, from one to the next, from the last to all."""
        self._title, document = title, self._reader().document
        if following := next_rank_file(document.path, title):
            self._show(*following)
        else:
            self._threads.find_ranks(document.source, self._found)

    def _found(self, source: LogSource, ranks: list[int]) -> None:
        reader = self._reader()
        if source is not reader.document.source:
            return
        following = next_rank_file(reader.document.path, self._title, begin=True)
        if ranks:
            if reader.show_next_rank(ranks):
                self._filtered()
        elif following is not None:
            self._show(*following)
        else:
            notice = "no line here names a rank, as [rank0]: or [default0]: do"
            self._owner.post_message(LogNotice(notice))


def next_rank_file(path: Path | None, title: str, begin: bool = False) -> tuple[Path, str] | None:
    """The log after that of a rank, with its title: the next rank's, after the last the output.

    After the output, only to `begin`: the first rank's. None where there is none.
    """
    parents = path.parents if path is not None else ()
    run = next((part for part in parents if (part / "output.log").exists()), None)
    if run is None or path is None or not (begin or FOLDER in path.relative_to(run).parts):
        return None
    name = title.partition(" · ")[0]
    places = [(run / "output.log", f"{name} · output.log")]
    for rank, log in rank_logs(run).items():
        places += [(file, f"{name} · rank {rank} · {file.name}") for file in log.paths]
    at = next((i for i, place in enumerate(places) if place[0] == path), -1)
    return places[(at + 1) % len(places)] if len(places) > 1 else None
