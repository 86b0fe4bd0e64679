"""A run's output as lines of text, for `logs --json`: all of it, one rank's, as it grows."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from runners.housekeeping import tend
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.cli.output import print_json
from tui.cli.output_blocks import OutputBlocks


class OutputLines:
    """Whole lines of an output as it grows, as text; what is not UTF-8 is replaced."""

    def __init__(
        self,
        blocks: OutputBlocks,
        shown: Callable[[bytes], Iterable[bytes]] = lambda line: (line,),
    ) -> None:
        """`shown` is what of a line is wanted: itself, a part, or nothing."""
        self._blocks = blocks
        self._shown = shown
        self._begun: list[bytes] = []

    def new(self) -> Iterator[str]:
        """The lines that were finished since the last look."""
        for block in self._blocks.new():
            # The zeros are the hole that output_limit cuts.
            first, *others = block.replace(b"\0", b"").split(b"\n")
            self._begun.append(first)
            for line in others:
                # Joined once: a progress bar writes one line of many megabytes.
                yield from self._texts(b"".join(self._begun))
                self._begun = [line]

    def rest(self) -> list[str]:
        """The last line, which does not end; nothing comes after it."""
        self._blocks.close()
        line, self._begun = b"".join(self._begun), []
        return self._texts(line) if line else []

    def _texts(self, line: bytes) -> list[str]:
        return [text.removesuffix(b"\r").decode("utf-8", "replace") for text in self._shown(line)]


def print_lines(
    state: StateDirectory,
    run: Run,
    facts: Mapping[str, object],
    outputs: Mapping[Path, OutputLines],
    follow: bool,
) -> int:
    """Outputs as JSON: one document, or with -f a line of JSON for each line; `facts` in each."""
    facts = {"run": run.id, **facts}
    if not follow:
        lines = [line for output in outputs.values() for line in (*output.new(), *output.rest())]
        print_json({**facts, "path": ", ".join(map(str, outputs)), "lines": lines})
        return ExitCode.DONE

    def emit() -> None:
        for output in outputs.values():
            for text in output.new():
                print(json.dumps({**facts, "text": text}), flush=True)

    emit()
    if run.is_live:
        tend(state)
        wait_until_ended(state, run.id, emit)
        emit()
    for output in outputs.values():
        for text in output.rest():
            print(json.dumps({**facts, "text": text}), flush=True)
    return ExitCode.DONE
