"""What was changed in the code and not committed when a run was launched, as lines to show."""

from __future__ import annotations

from typing import Literal, NamedTuple

from runners.host.files import open_binary
from runners.model.units import counted
from runners.state.layout import RunDirectory
from tui.views.format import size
from tui.views.safe import safe

MOST_LINES = 400
"""Lines that are shown of a diff beside other things."""
_SHOWN_BYTES = 1 << 20
_MOST_BYTES = 8 << 20
_LONGEST = 500
_TAB = 4
_HEADERS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "old mode", "new mode")

DiffKind = Literal["file", "place", "added", "removed", "same", "word"]


class DiffLine(NamedTuple):
    """One line of a diff, safe to show, and what it is."""

    kind: DiffKind
    text: str


def diff_lines(directory: RunDirectory, most: int | None = MOST_LINES) -> list[DiffLine]:
    """The run's diff, `most` lines of it, and in words what is left out; empty without one."""
    limit = _MOST_BYTES if most is None else _SHOWN_BYTES
    content, whole = _read(directory, limit)
    raw = content.removesuffix("\n").split("\n") if content else []
    shown = raw if most is None else raw[:most]
    found: list[DiffLine] = []
    in_hunk = False
    for line in shown:
        in_hunk = line.startswith("@@") or (in_hunk and not line.startswith("diff "))
        found.append(DiffLine(_kind(line, in_hunk), _text(line)))
    left = len(raw) - len(shown)
    if left or whole > limit:
        count = f"{left:,} more lines" if whole <= limit else f"more of {size(whole)}"
        found.append(DiffLine("word", f"… {count} in {directory.source_diff}"))
    return found


def diff_text(directory: RunDirectory) -> str | None:
    """The run's diff as git made it; None without one."""
    return _read(directory, _MOST_BYTES)[0] or None


def diff_summary(lines: list[DiffLine]) -> str:
    """How much was changed, in a few words."""
    files = sum(line.text.startswith("diff ") for line in lines)
    kinds = [line.kind for line in lines]
    more = " at least" if kinds[-1:] == ["word"] else ""
    return f"{counted(files, 'file')},{more} +{kinds.count('added')} −{kinds.count('removed')}"


def _read(directory: RunDirectory, limit: int) -> tuple[str, int]:
    """The diff as text, as much as is read of it, and its bytes in all."""
    try:
        with open_binary(directory.source_diff) as file:
            content = file.read(limit)
        return content.decode("utf-8", "replace"), directory.source_diff.stat().st_size
    except OSError:
        return "", 0


def _kind(line: str, in_hunk: bool) -> DiffKind:
    if line.startswith("@@"):
        return "place"
    if not in_hunk:
        return "file" if line.startswith(_HEADERS) else "same"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")  # type: ignore[return-value]


def _text(line: str) -> str:
    line = safe(line.expandtabs(_TAB))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
