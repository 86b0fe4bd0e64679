"""Where a preset's values come from, so that an error can name file, line and nearest key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runners.model.errors import WrongInput
from runners.presets.reading.typed import KeyMistake, KeyPath

if TYPE_CHECKING:
    from runners.presets.reading.yaml_lines import Lines


class Diagnostics:
    """Where values come from, so that an error can name file, line and key."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.path = path
        self.lines = lines
        self.flags: dict[KeyPath, str] = {}

    def error(self, key: KeyPath, message: str) -> WrongInput:
        """A WrongInput for the value at `key`."""
        place = str(self.path)
        for end in range(len(key), -1, -1):
            if key[:end] in self.flags:
                return WrongInput(f"{self.flags[key[:end]]}: {message}")
            if key[:end] in self.lines:
                place = f"{self.path}:{self.lines[key[:end]]}"
                break
        return WrongInput(": ".join(filter(None, (place, ".".join(map(str, key)), message))))

    @contextmanager
    def located(self) -> Iterator[None]:
        """Give a KeyMistake that is raised in the block its file and line, or its flag."""
        try:
            yield
        except KeyMistake as mistake:
            raise self.error(mistake.key, mistake.message) from None


@contextmanager
def located(path: str) -> Iterator[None]:
    """Give a WrongInput `KEY: …` that is raised in the block the line of that key in `path`.

    Some mistakes show only when a run is planned: a script that is not there, a variable that is
    not set.
    """
    try:
        yield
    except WrongInput as error:
        key, colon, _ = error.message.partition(": ")
        if not path or not colon or " " in key:
            raise
        from runners.presets.reading.yaml_lines import read_yaml  # few launches need any YAML

        lines = read_yaml(Path(path))[1]
        line = lines.get(tuple(key.split("."))) or lines.get((key.split(".")[0],))
        place = f"{path}:{line}" if line else path
        raise WrongInput(f"{place}: {error.message}", error.hint) from None
