"""What the panel did, as the headless commands that do the same: a habit becomes a script."""

import shlex
import time
from collections.abc import Sequence

from runners.model.spec import GpuRequest


class CommandLog:
    """The commands of this panel, oldest first: when (unix seconds), and the line for a shell."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self.failed: set[int] = set()
        """Which of the lines, by number, came to nothing."""

    def note(self, arguments: Sequence[str]) -> int:
        """Something is done that `fresnel-tui WORDS` does as well; the number of its line."""
        from runners.model.masking import mask_arguments  # not for the first paint

        self.lines.append((time.time(), shlex.join(["fresnel-tui", *mask_arguments(arguments)])))
        return len(self.lines) - 1

    @property
    def script(self) -> str:
        """All of them as a shell script; what failed is a comment in it."""
        lines = [
            f"# failed: {line}\n" if number in self.failed else f"{line}\n"
            for number, (_, line) in enumerate(self.lines)
        ]
        return "".join(["#!/bin/sh\n", *lines])


def gpu_arguments(request: GpuRequest) -> list[str]:
    """The flags that ask for these GPUs."""
    if request.all:
        return ["--gpus", "all"]
    return ["--gpu-ids", ",".join(request.ids)] if request.ids else ["--gpus", str(request.count)]
