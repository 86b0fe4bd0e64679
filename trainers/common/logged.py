"""A reporter whose lines stand in the run's folder, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.files import LineFile
from trainers.common.ranks import Ranks
from trainers.common.reporter import Reporter

LOG_NAME = "train.log"


class LoggedReporter(Reporter):
    """A Reporter whose lines go to train.log too, once the run has begun."""

    def __init__(self, ranks: Ranks, folder: Path, *details: Any, **more: Any) -> None:
        self._log = LineFile(folder / LOG_NAME, waiting=True) if ranks.leads else None
        super().__init__(ranks, folder, *details, **more)

    def write(self, line: str) -> None:
        """Print a line and append it to train.log."""
        super().write(line)
        self.note(line)

    def note(self, line: str) -> None:
        """Append a line that is printed elsewhere."""
        if self._log:
            self._log.write(line)

    def start(self, **found: Any) -> None:
        """Begin the log as well: what was said before is its beginning."""
        if self._log:
            self._log.begin()
        super().start(**found)

    def finish(self, values: Mapping[str, float] | None = None) -> None:
        """Close the log as well."""
        super().finish(values)
        if self._log:
            self._log.close()
            self._log = None
