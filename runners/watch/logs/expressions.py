"""Regular expressions by RE2: linear in what they search, and without blocking other threads.

Python's own engine can take for ever over one line (`(a+)+$` over `aaaa…!`) and lets no other
thread run meanwhile. The price: no look-around and no back-references.
Syntax: https://github.com/google/re2/wiki/Syntax.
"""

import re
from collections.abc import Iterable
from typing import Protocol

from runners.model.late_pattern import late_pattern

COLOURS = r"(?:\x1b\[[0-9;:]*[mK])"
"""A sequence that colours a log, and the erasing that `grep` and compilers send with it."""

_TOKEN = late_pattern(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^]\\])*\]|\{\d*,?\d*\}|\(\?:|.", re.DOTALL)
# Classes and escapes that may match a newline, or of which that is not easily known.
_MAY_BE_NEWLINE = late_pattern(
    r"^\[\^\]|^\[.*\\[^dw\W]|\[\[:|^\\[^dwSbBtrf\W]|[\x00-\x1f]", re.DOTALL
)
_MEANING_ESCAPES = late_pattern(r"\\[dDwWsSbBAz]")


class BadExpression(ValueError):
    """Not a regular expression that RE2 understands; says why."""


class Match(Protocol):
    """A match, as `re` has it."""

    def start(self) -> int:
        """Where it begins."""

    def end(self) -> int:
        """Where it ends."""


class Expression(Protocol):
    """What is used of a compiled expression; on bytes it counts bytes, on text characters."""

    def search(self, text: bytes, pos: int = 0) -> Match | None:
        """The first match from `pos` on."""

    def finditer(self, text: str) -> Iterable[Match]:
        """All matches."""


def compile_expression(text: str) -> Expression:
    """An expression within one line, at whose ends `^` and `$` match. Raises BadExpression."""
    import re2  # only once something is searched: a panel that shows its first screen does without

    options = re2.Options()
    # never_nl: the search runs over a whole MiB at a time, but a match is meant within one line.
    options.never_nl = options.never_capture = True
    options.log_errors = False
    try:
        compiled: Expression = re2.compile(f"(?m){text}", options)
    except re2.error as why:
        reason = why.args[0]
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        hint = (
            " (look-around and back-references are not known here)"
            if re.search(r"\(\?|\\\d", reason)
            else ""
        )
        raise BadExpression(f"{reason}{hint}") from None
    return compiled


def whole_lines(expression: str) -> Expression | None:
    """An expression for all neighbouring lines that match; None if it could match a newline."""
    import re2

    parts: list[str] = []
    for token in _TOKEN.findall(expression):
        if token == r"\s":
            token = r"[\t\f\r ]"
        elif _MAY_BE_NEWLINE.search(token):
            return None
        elif token.startswith("[^"):
            token = rf"[^\n{token[2:]}"
        parts.append(token)
    text = "".join(parts)
    if "(?" in text.replace("(?:", ""):
        return None
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    try:
        compiled: Expression = re2.compile(rf"(?m)(?:^[^\n]*(?:{text})[^\n]*\n)+", options)
    except re2.error:
        return None
    return compiled


def through_colours(text: str) -> str:
    """An expression for a text in which the colour may change between any two characters."""
    return f"{COLOURS}*".join(re.escape(character) for character in text)


def any_of(texts: Iterable[str]) -> Expression:
    """An expression for any of these texts, coloured or not."""
    return compile_expression("|".join(through_colours(text) for text in texts))


def texts_needed(expression: str) -> list[str]:
    """Texts of which every match contains at least one; none where that is not easily known."""
    branches: list[list[str]] = [[""]]
    depth = 0
    for token in _TOKEN.findall(expression):
        runs = branches[-1]
        if token in ("(", "(?:", ")"):
            depth += -1 if token == ")" else 1
            runs.append("")
        elif depth:
            # Inside brackets a text may be one of several, or absent: none is surely needed.
            continue
        elif token == "|":
            branches.append([""])
        elif token in ("*", "?") or token[0] == "{":
            runs[-1:] = [runs[-1][:-1], ""]  # what it follows may be absent
        elif token in (".", "^", "$", "+") or token[0] == "[" or _MEANING_ESCAPES.fullmatch(token):
            runs.append("")
        elif token[0] != "\\":
            runs[-1] += token
        elif token[1:].isalnum():
            # An unknown escape may stand for anything.
            return []
        else:
            runs[-1] += token[1:]
    # Every branch must need some text, or a match of that branch would be missed.
    longest = [max(runs, key=len) for runs in branches]
    return longest if all(longest) and "(?" not in expression.replace("(?:", "") else []
