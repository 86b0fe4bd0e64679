"""What the panel did, as the headless commands that do the same: a habit becomes a script."""

import shlex
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from runners.model.spec import GpuRequest


class Undone(NamedTuple):
    """What a command did not do, and why: to `runs` of as many as it has `named`.

    Without runs it is not known to which.
    """

    why: str
    runs: Collection[str] = ()
    named: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it did nothing of what it says."""
        return self.named <= max(1, len(self.runs))

    @property
    def mark(self) -> str:
        """A sign and words, for the line of the command."""
        if self.is_whole:
            return "✗ failed"
        done = self.named - len(self.runs)
        return f"⚠ {done} of {self.named} done" if self.runs else "⚠ not all done"


class CommandLog:
    """The commands of this panel, oldest first: when (unix seconds), and the line for a shell."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self.undone: dict[int, Undone] = {}
        """Which of the lines, by number, came to nothing or not to all that they say."""

    def note(self, arguments: Sequence[str]) -> int:
        """Something is done that `fresnel-tui WORDS` does as well; the number of its line."""
        from runners.model.masking import mask_arguments  # not for the first paint

        self.lines.append((time.time(), shlex.join(["fresnel-tui", *mask_arguments(arguments)])))
        return len(self.lines) - 1

    @property
    def script(self) -> str:
        """All of them as a shell script; what was not done is a comment in it."""
        lines = [_script_line(line, self.undone.get(i)) for i, (_, line) in enumerate(self.lines)]
        return "".join(["#!/bin/sh\n", *lines])


def _script_line(line: str, undone: Undone | None) -> str:
    if undone is None:
        return f"{line}\n"
    if undone.is_whole or not undone.runs:
        return f"# {undone.mark[2:]}: {line}\n"
    done = shlex.join(word for word in shlex.split(line) if word not in undone.runs)
    return f"{done}  # not {' '.join(undone.runs)}\n"


def gpu_arguments(request: GpuRequest) -> list[str]:
    """The flags that ask for these GPUs."""
    if request.all:
        return ["--gpus", "all"]
    return ["--gpu-ids", ",".join(request.ids)] if request.ids else ["--gpus", str(request.count)]
