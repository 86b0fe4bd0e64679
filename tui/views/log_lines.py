"""Lines of a run's log: the last ones, and where the error that ended the run stands."""

import mmap
import re
from pathlib import Path

from runners.host.files import open_binary, read_tail
from runners.model.kept_secrets import MASK

_TAIL_BYTES = 16 << 10
_MOST_BYTES = 1 << 30
"""Of a longer log the line's number is not counted."""
_PIECE = 80


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file as a terminal may show them; empty when there is none."""
    from runners.watch.logs.render import plain  # most of what tells an error reads no other line

    lines = [plain(line).rstrip() for line in read_tail(path, _TAIL_BYTES).split(b"\n")]
    return [line for line in lines if line][-count:] if count > 0 else []


def error_text(directory: str, line: str) -> str:
    """The `line` that tells why the run in `directory` ended, and its number in the log."""
    number = error_line(directory, line) if line else None
    return f"{line} (line {number:,} of output.log)" if number is not None else line


def error_line(directory: str, line: str) -> int | None:
    """The number, from 1, of the log's last line that has these words; None when there is none."""
    # What a terminal would not show, what was left out or masked, is not looked for.
    piece = re.split(rf"[^\x20-\x7e]|…|{re.escape(MASK)}", line.strip())[0].strip()[:_PIECE]
    # So few characters stand anywhere.
    if len(piece) < 4:
        return None
    try:
        with open_binary(Path(directory) / "output.log") as file:
            if file.seek(0, 2) > _MOST_BYTES:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                at = data.rfind(piece.encode())
                return None if at < 0 else _newlines(data, at) + 1
    except (OSError, ValueError):
        return None


def _newlines(data: mmap.mmap, end: int) -> int:
    step = 1 << 20
    return sum(data[at : min(at + step, end)].count(b"\n") for at in range(0, end, step))
