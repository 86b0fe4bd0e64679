"""Regular expressions by RE2: linear in what they search, and searching keeps no other thread
waiting.

Python's own engine can take for ever over one line (`(a+)+$` over `aaaa…!`) and lets no other
thread run meanwhile. The price: no look-around and no back-references. Syntax:
https://github.com/google/re2/wiki/Syntax.
"""

import re
from collections.abc import Iterable
from typing import Protocol

COLOURS = r"(?:\x1b\[[0-9;:]*[mK])"
"""A sequence that colours a log, and the erasing that `grep` and compilers send with it."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^]\\])*\]|\{\d*,?\d*\}|\(\?:|.", re.DOTALL)
# Classes that may hold a newline, or of which that is not told at a glance; escapes likewise.
_MAY_BE_NEWLINE = re.compile(
    r"^\[\^\]|^\[.*\\[^dw\W]|\[\[:|^\\[^dwSbBtrf\W]|[\x00-\x1f]", re.DOTALL
)
_MEANING_ESCAPES = re.compile(r"\\[dDwWsSbBAz]")


class BadExpression(ValueError):
    """Not a regular expression that is understood here; says why."""


class Match(Protocol):
    """A match, as `re` has it."""

    def start(self) -> int:
        """Where it begins."""

    def end(self) -> int:
        """Where it ends."""


class Expression(Protocol):
    """As much of a compiled expression as is used; in bytes it counts bytes, in text characters."""

    def search(self, text: bytes, pos: int = 0) -> Match | None:
        """The first match from `pos` on."""

    def finditer(self, text: str) -> Iterable[Match]:
        """All matches."""


def compile_expression(text: str) -> Expression:
    """An expression that never matches beyond a line's end, where `^` and `$` match; raises
    BadExpression.
    """
    import re2  # only once something is searched: a panel that shows its first screen does without

    options = re2.Options()
    options.never_nl = options.never_capture = True
    options.log_errors = False
    try:
        compiled: Expression = re2.compile(f"(?m){text}", options)
    except re2.error as why:
        words = why.args[0]
        words = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        hint = (
            " (look-around and back-references are not known here)"
            if re.search(r"\(\?|\\\d", words)
            else ""
        )
        raise BadExpression(f"{words}{hint}") from None
    return compiled


def whole_lines(expression: str) -> Expression | None:
    """An expression for as many neighbouring lines as match, each with its newline, in one go.

    None where `expression` could match a newline itself, and so more than one line.
    """
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
    """An expression for a text in which any character may change the colour."""
    return f"{COLOURS}*".join(re.escape(character) for character in text)


def any_of(texts: Iterable[str]) -> Expression:
    """An expression for any of these texts, coloured or not."""
    return compile_expression("|".join(through_colours(text) for text in texts))


def texts_needed(expression: str) -> list[str]:
    """Texts of which every match holds at least one; none where that cannot be told at a glance."""
    branches: list[list[str]] = [[""]]
    depth = 0
    for token in _TOKEN.findall(expression):
        runs = branches[-1]
        if token in ("(", "(?:", ")"):
            depth += -1 if token == ")" else 1
            runs.append("")
        elif depth:
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
            return []
        else:
            runs[-1] += token[1:]
    longest = [max(runs, key=len) for runs in branches]
    return longest if all(longest) and "(?" not in expression.replace("(?:", "") else []
