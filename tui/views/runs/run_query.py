"""What people type to find runs: `state:failed tag:good vit loss<0.1 since:7d`.

Words are looked for in name, id, preset, group, tags, note and reason; `key:value` in one of these
(several values with commas: any of them); `metric<0.1` compares a metric's last value, or its best
with `best:metric<0.1`, and where a run has no such metric, its setting: `seed=3`. `set:lr<1e-3`
compares the setting alone. All must hold; `-` before one turns it round.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from runners.model.errors import WrongInput
from runners.model.late_pattern import late_pattern
from runners.model.states import State
from runners.places.run_row import RunRow
from tui.views.runs.run_settings import as_number, same
from tui.views.runs.run_sort import FIELDS, SETTING

Test = Callable[[RunRow], bool]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_COMPARISON = late_pattern(r"(?P<left>[^<>=!]+)(?P<sign><=|>=|!=|<|>|=)(?P<right>.*)")
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_EQUALITY = ("=", "!=")
_TEXTS: dict[str, Callable[[RunRow], str]] = {
    **{
        "id" if name == "run" else name: field.text
        for name, field in FIELDS.items()
        if field.text is not None
    },
    "note": lambda row: row.note,
}
_IS: dict[str, Test] = {
    "live": lambda row: row.is_live,
    "ended": lambda row: not row.is_live,
    "starred": lambda row: row.starred,
}
KEYS = ("state", *_TEXTS, "host", "tag", "gpu", "is", "since", "before", "set")
"""What may stand before a colon."""


class RunQuery(NamedTuple):
    """What was typed, as tests of a row; `problem` says what could not be understood."""

    text: str
    tests: tuple[Test, ...] = ()
    problem: str = ""
    names: tuple[str, ...] = ()
    """What some run should have: metrics by their names, settings as `set:NAME`."""

    def __call__(self, row: RunRow) -> bool:
        """Whether a row is wanted."""
        return all(test(row) for test in self.tests)

    def of(self, rows: tuple[RunRow, ...]) -> tuple[RunRow, ...]:
        """The rows that are wanted, in their order."""
        for test in self.tests:
            rows = tuple(filter(test, rows))
        return rows


def parse_query(text: str, now: float, typing: bool = False) -> RunQuery:
    """Read what was typed, as of `now` (unix seconds).

    While one is `typing`, what is not finished yet (`state:`, `loss<`) finds everything.
    """
    try:
        terms = shlex.split(text)
    except ValueError:
        # A quote that is not closed yet: the table follows each key.
        terms = text.replace('"', " ").replace("'", " ").split()
    tests, names, problem = [], [], ""
    for word in terms:
        turned = word.startswith(("-", "!")) and len(word) > 1
        try:
            test = _test(word[1:] if turned else word, now)
        except WrongInput as error:
            if not typing or word[-1] not in ":<>=!-,":
                problem = problem or error.message
            continue
        tests.append(_opposite(test) if turned else test)
        names += _names_in(word[1:] if turned else word)
    return RunQuery(text, tuple(tests), problem, tuple(names))


def checked_query(text: str, now: float) -> RunQuery:
    """Read a whole query; WrongInput when any of it cannot be understood."""
    query = parse_query(text, now)
    if query.problem:
        raise WrongInput(
            query.problem,
            f"words, {':, '.join(KEYS)}: or metric<0.1, best:metric>0.9, set:lr<1e-3, age<2h",
        )
    return query


def is_term(word: str) -> bool:
    """Whether a word asks for a field or compares something, rather than being a text alone."""
    word = word[1:] if word.startswith(("-", "!")) else word
    key, colon, _ = word.partition(":")
    return bool(colon and key.lower() in KEYS) or _COMPARISON.fullmatch(word) is not None


def unknown_names(query: RunQuery, rows: Sequence[RunRow]) -> list[str]:
    """A sentence for each metric or setting of a query that no run has, whatever it is compared to.

    Nearly always the first rows have it: few are read.
    """
    unknown = [
        name for name in dict.fromkeys(query.names) if not any(_has(row, name) for row in rows)
    ]
    if not unknown:
        return []
    from runners.model.suggestions import did_you_mean  # only mistakes need it

    metrics = {name for row in rows for name in row.metrics}
    settings = {name for row in rows for name in row.settings}
    sentences = []
    for name in unknown:
        setting = name.removeprefix(SETTING)
        is_setting = setting != name
        hint = did_you_mean(setting, settings if is_setting else metrics | settings)
        kind = "setting" if is_setting else "metric or setting"
        sentences.append(f"no run has a {kind} `{setting}`" + (f": {hint}" if hint else ""))
    return sentences


def _has(row: RunRow, name: str) -> bool:
    setting = name.removeprefix(SETTING)
    if setting == name and row.metric(name)[:2] != (None, None):
        return True
    return setting in row.settings


def _opposite(test: Test) -> Test:
    return lambda row: not test(row)


def _test(word: str, now: float) -> Test:
    found = _COMPARISON.fullmatch(word)
    key, colon, value = word.partition(":")
    if found is not None and (not colon or key in ("best", "last", "set")):
        return _comparison(found["left"], found["sign"], found["right"], now)
    if not colon:
        return _containing(word)
    if key.lower() not in KEYS:
        return _containing(_no_misspelt_key(word, key))
    return _field(key.lower(), value, now)


def _no_misspelt_key(word: str, key: str) -> str:
    """The word, as a text to look for; WrongInput where its beginning is nearly a key."""
    from runners.model.suggestions import nearest  # only such words need it

    near = nearest(key.lower(), KEYS, 1) if key.isalpha() else []
    if near:
        raise WrongInput(f"no key `{key}:`: did you mean `{near[0]}:`?")
    return word


def _names_in(word: str) -> list[str]:
    """The metric, or `set:` and the setting, that a term is about, if it is about one."""
    found = _COMPARISON.fullmatch(word)
    prefix, colon, name = (found["left"] if found is not None else word).partition(":")
    if prefix == "set" and name:
        return [SETTING + name]
    if found is None:
        return []
    if colon:
        return [name] if prefix in ("best", "last") else []
    return [] if prefix in FIELDS and FIELDS[prefix].amount else [prefix]


def _containing(word: str) -> Test:
    wanted = word.lower()

    def contains(row: RunRow) -> bool:
        texts = (text(row) for key, text in _TEXTS.items() if key != "user")
        return any(wanted in text.lower() for text in (*texts, *row.tags))

    return contains


def _field(key: str, value: str, now: float) -> Test:
    if not value:
        raise WrongInput(f"`{key}:` needs a value")
    wanted = [word.lower() for word in value.split(",") if word]
    if key == "state":
        return _in_state(wanted)
    if key == "tag":
        return lambda row: any(tag.lower() in wanted for tag in row.tags)
    if key == "set":
        return lambda row: any(name in wanted for name in map(str.lower, row.settings))
    if key == "host":
        return lambda row: any(_is_on(row, word) for word in wanted)
    if key == "gpu":
        return lambda row: any(str(index) in wanted for index in row.gpus)
    if key == "is":
        unknown = [word for word in wanted if word not in _IS]
        if unknown:
            raise WrongInput(f"`is:{unknown[0]}`: expected {', '.join(_IS)}")
        return lambda row: any(_IS[word](row) for word in wanted)
    if key in ("since", "before"):
        moment = parse_moment(value, now)
        return (
            (lambda row: row.created >= moment)
            if key == "since"
            else (lambda row: row.created < moment)
        )
    text = _TEXTS[key]
    return lambda row: any(word in text(row).lower() for word in wanted)


def _is_on(row: RunRow, host: str) -> bool:
    """Whether a run is on the machine of this name, or one that begins so; `here`: this one."""
    return row.host.lower().startswith(host) or (host == "here" and not row.machine)


def _in_state(wanted: list[str]) -> Test:
    names = [str(state) for state in State]
    chosen: set[str] = set()
    for word in wanted:
        # A beginning is enough: `state:fail` is found while it is typed.
        found = [name for name in names if name.startswith(word)]
        if not found and word not in _IS:
            raise WrongInput(f"`state:{word}`: expected {', '.join(names)}")
        chosen.update(found)
    flags = [_IS[word] for word in wanted if word in _IS]
    return lambda row: row.state.value in chosen or any(flag(row) for flag in flags)


def _comparison(left: str, sign: str, right: str, now: float) -> Test:
    compare = _SIGNS[sign]
    prefix, colon, name = left.partition(":")
    best = colon and prefix == "best"
    name = name if colon and prefix in ("best", "last") else left
    read = FIELDS[name].amount if not colon and name in FIELDS else None
    if read is not None:
        value = _amount(name, right)

        def holds(row: RunRow) -> bool:
            found = read(row, now)
            return found is not None and compare(found, value)

        return holds
    if colon and prefix == "set":
        return _setting_test(left.removeprefix(SETTING), sign, right)
    of_setting = _setting_test(name, sign, right) if not colon else None
    try:
        value = _amount(name, right)
    except WrongInput:
        if of_setting is None or sign not in _EQUALITY:
            raise
        return of_setting  # no metric is a text
    place = 1 if best else 0

    def metric_holds(row: RunRow) -> bool:
        found = row.metric(name)[place]
        if found is None and of_setting is not None:
            return of_setting(row)
        return found is not None and compare(found, value)

    return metric_holds


def _setting_test(name: str, sign: str, right: str) -> Test:
    """Whether a setting is this text or number, or less or more than a number."""
    if sign in _EQUALITY:
        is_equal = sign == "="

        def agrees(row: RunRow) -> bool:
            value = row.settings.get(name)
            return value is not None and same(value, right) == is_equal

        return agrees
    compare, limit = _SIGNS[sign], _amount(name, right)

    def holds(row: RunRow) -> bool:
        value = as_number(row.settings.get(name, ""))
        return value is not None and compare(value, limit)

    return holds


def _amount(name: str, text: str) -> float:
    """A number; seconds where the text has a unit of time, a part of a hundred for `50%`."""
    found = re.fullmatch(r"\$?([-+]?[\d.]+(?:e[-+]?\d+)?)([smhdw%]?)", text.lower())
    try:
        assert found is not None
        return float(found[1]) * _UNITS.get(found[2], 1)
    except (AssertionError, ValueError):
        raise WrongInput(f"`{name}`: expected a number, not `{text}`") from None


def parse_moment(text: str, now: float) -> float:
    """`7d` (before `now`), `today`, `yesterday` or `2026-11-20T14:00` as unix seconds.

    Dates are in local time; WrongInput for anything else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip().lower())
    if found is not None:
        return now - float(found[1]) * _UNITS[found[2]]
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "yesterday": 1}.get(text.strip().lower())
    if days is not None:
        return (midnight - timedelta(days=days)).timestamp()
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        raise WrongInput(
            f"`{text}` is no time: expected 7d, 12h, today, yesterday or 2026-11-20"
        ) from None
