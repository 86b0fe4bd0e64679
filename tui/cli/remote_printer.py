"""What a command on another machine prints, made safe for this terminal."""

import codecs
import json
import re
import sys

from runners.model.errors import FresnelError
from runners.places.ssh.commands_there import advised_from_here, named_from_here
from tui.cli.output import write_bytes
from tui.views.safe import safe, safe_json

_LONGEST_LINE = 64 << 20
_COLOURS = re.compile("(\x1b\\[[0-9;:]{0,40}m|\r)")
"""What a log may do to a terminal: colours, and a progress bar that writes its line again."""


class RemotePrinter:
    """A command's output, printed at once, or as a `whole` when it has ended.

    Only a whole can be asked for again after a broken connection: nothing may be printed twice.
    """

    def __init__(
        self, machine: str, whole: bool, as_json: bool = False, is_log: bool = False
    ) -> None:
        """With `as_json`, every line is read and printed anew.

        The bytes of a log are copied as they are where they go to a file.
        """
        self.has_printed = False
        self._machine = machine
        self._whole = whole
        self._as_json = as_json
        self._is_log = is_log
        self._kept: list[bytes] = []
        self._begun: list[str] = []
        """What came of a line of JSON so far."""
        new = codecs.getincrementaldecoder("utf-8")
        self._decoders = {1: new("replace"), 2: new("replace")}

    def take(self, stream: int, data: bytes) -> None:
        """Take in what it said on stdout (1) or stderr (2)."""
        if self._whole and stream == 1:
            self._kept.append(data)
            if sum(map(len, self._kept)) > _LONGEST_LINE:
                raise FresnelError("an answer without an end")
            return
        self.has_printed = self.has_printed or (bool(data) and not self._whole)
        if stream == 1 and self._is_log and not self._as_json and not sys.stdout.isatty():
            write_bytes(data)
            return
        text = self._decoders[stream].decode(data)
        if stream == 2:
            print(self._shown(text), end="", file=sys.stderr, flush=True)
        elif self._as_json:
            self._take_json(text)
        else:
            print(_safe_log(text) if self._is_log else self._shown(text), end="", flush=True)

    def end(self) -> None:
        """Print what was kept. FresnelError when the last line is no JSON where it has to be."""
        self._whole = False
        kept, self._kept = self._kept, []
        for data in kept:
            self.take(1, data)
        line, self._begun = "".join(self._begun), []
        if line.strip():
            self._print_json(line)

    def _shown(self, text: str) -> str:
        return named_from_here(safe(text), self._machine)

    def _take_json(self, text: str) -> None:
        first, *others = text.split("\n")
        self._begun.append(first)
        for line in others:
            self._print_json("".join(self._begun))
            self._begun = [line]
        if sum(map(len, self._begun)) > _LONGEST_LINE:
            raise FresnelError("an answer without an end")

    def _print_json(self, line: str) -> None:
        try:
            value = advised_from_here(json.loads(line), self._machine)
        except (ValueError, RecursionError):
            raise FresnelError(f"an answer that is not JSON: {line[:200]!r}") from None
        indent = 2 if sys.stdout.isatty() else None
        print(safe_json(json.dumps(value, ensure_ascii=False, indent=indent)), flush=True)


def _safe_log(text: str) -> str:
    return "".join(
        part if _COLOURS.fullmatch(part) else safe(part) for part in _COLOURS.split(text)
    )
