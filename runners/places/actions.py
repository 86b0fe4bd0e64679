"""What can be done to runs, as values: carried out here, or sent to where the runs live."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runners.model.closed import assert_never
from runners.model.errors import ExitCode

Runs = tuple[str, ...]
"""Ids of runs, as their place knows them."""

_MOST_TEXTS = 3
_ERROR = "fresnel-tui: "
"""What a command's refusals begin with."""


class StopRuns(NamedTuple):
    """Ask runs to stop, each by its own ladder; `force`: SIGKILL now."""

    runs: Runs
    force: bool = False


class PauseRuns(NamedTuple):
    """Stop runs where they are, by SIGSTOP; their GPUs stay theirs. `paused` False: go on."""

    runs: Runs
    paused: bool = True


class RenameRun(NamedTuple):
    """Give a run another name; empty: the one of its launch."""

    run: str
    name: str


class ChangeTags(NamedTuple):
    """Add tags to runs, and take others away."""

    runs: Runs
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class WriteNote(NamedTuple):
    """Write a note on a run, in place of the one that is there; empty: none."""

    run: str
    text: str


class StarRuns(NamedTuple):
    """Mark runs as ones to keep, or no longer."""

    runs: Runs
    starred: bool


class JudgeRuns(NamedTuple):
    """Judge runs by a metric, of which more is better if `higher`; without one, as by default."""

    runs: Runs
    metric: str = ""
    higher: bool | None = None


class DeleteRuns(NamedTuple):
    """Move ended runs to the trash."""

    runs: Runs


class RestoreRuns(NamedTuple):
    """Bring runs back from the trash; without ids, what was deleted last."""

    runs: Runs = ()


class ChangePriority(NamedTuple):
    """Let queued runs go before others by so much more, or less."""

    runs: Runs
    by: int


class ExtendRuns(NamedTuple):
    """Raise the time limit of runs' Slurm jobs by so many minutes."""

    runs: Runs
    minutes: int


class ApplyRemedy(NamedTuple):
    """Launch an ended run again with a remedy."""

    run: str
    remedy: str


RunAction = (
    StopRuns
    | PauseRuns
    | RenameRun
    | ChangeTags
    | WriteNote
    | StarRuns
    | JudgeRuns
    | DeleteRuns
    | RestoreRuns
    | ChangePriority
    | ExtendRuns
    | ApplyRemedy
)


class Outcome(NamedTuple):
    """What an action or a command came to.

    `changed` are the ids of the runs that were deleted, brought back or launched, `messages` what
    is worth telling, `problem` why it was not done; `output` is what a command printed. `refused`
    are the runs that it was not done to, each with why, where that is known one by one.
    """

    changed: Runs = ()
    messages: tuple[str, ...] = ()
    problem: str = ""
    output: str = ""
    refused: tuple[tuple[str, str], ...] = ()


def few_texts(texts: Sequence[str]) -> str:
    """What is to be told of several runs: the first of it, a line each, and how much more."""
    different = list(dict.fromkeys(texts))
    more = len(different) - _MOST_TEXTS
    shown = different[:_MOST_TEXTS] + ([f"and {more} more like these"] if more > 0 else [])
    return "\n".join(shown)


def outcome_of(
    output: str, errors: str, exit_code: int, problem: str = "", runs: Sequence[str] = ()
) -> Outcome:
    """What a headless command came to, by what it printed and what may have kept it from that.

    `runs` are those that it names: it says of each by itself why it was not done.
    """
    if not exit_code and not problem:
        text = "\n".join(_parts(errors))
        return Outcome(messages=(text,) if text else (), output=output)
    parts = _parts(errors)
    refused = {
        run: part.removeprefix(_ERROR)
        for part in parts
        for run in runs
        if run in part and part.startswith((_ERROR, f"{run} stays: "))
    }
    others = "\n".join(part for part in parts if not any(run in part for run in refused))
    if refused and len(runs) > 1 and exit_code != ExitCode.NOT_FOUND and not problem:
        reasons = few_texts(list(refused.values()))
        messages = (others,) if others else ()
        return Outcome((), messages, reasons, output, tuple(refused.items()))
    text = "\n".join(part.removeprefix(_ERROR) for part in parts)
    messages = (text,) if text and problem else ()
    problem = problem or text or f"exit code {exit_code}"
    # What is named and is not there keeps a command from all of them.
    is_whole = len(runs) == 1 or exit_code == ExitCode.NOT_FOUND
    whole = tuple((run, problem) for run in runs if is_whole)
    return Outcome((), messages, problem, output, whole)


def _parts(errors: str) -> list[str]:
    """The sentences of a command, each with the hint that is indented below it."""
    parts: list[str] = []
    for line in errors.splitlines():
        if line.startswith(" ") and parts:
            parts[-1] += f"\n{line.strip()}"
        elif line.strip():
            parts.append(line.strip())
    return parts


def commands_of(action: RunAction) -> Iterator[list[str]]:
    """The headless commands that do the same, as words behind `fresnel-tui`."""
    if isinstance(action, StopRuns):
        yield ["stop", *action.runs, *(["--force"] if action.force else [])]
    elif isinstance(action, PauseRuns):
        yield ["pause" if action.paused else "continue", *action.runs]
    elif isinstance(action, RenameRun):
        yield ["rename", action.run, *(_text(action.name) or ["--reset"])]
    elif isinstance(action, ChangeTags):
        for run in action.runs:
            if action.added:
                yield ["tag", run, *action.added]
            if action.removed:
                yield ["untag", run, *action.removed]
    elif isinstance(action, WriteNote):
        yield ["note", action.run, *(_text(action.text) or ["--clear"])]
    elif isinstance(action, StarRuns):
        yield ["star" if action.starred else "unstar", *action.runs]
    elif isinstance(action, JudgeRuns):
        for run in action.runs:
            yield ["best", run, *_judging(action)]
    elif isinstance(action, DeleteRuns):
        yield ["delete", *action.runs]
    elif isinstance(action, RestoreRuns):
        yield ["undelete", *(action.runs or ["last"])]
    elif isinstance(action, ChangePriority):
        for run in action.runs:
            yield ["priority", run, f"--by={action.by}"]
    elif isinstance(action, ExtendRuns):
        for run in action.runs:
            yield ["extend", run, f"{action.minutes}m"]
    elif isinstance(action, ApplyRemedy):
        yield ["remedy", action.run, "--apply", action.remedy]
    else:
        assert_never(action)


def _judging(action: JudgeRuns) -> list[str]:
    if not action.metric:
        return ["--reset"]
    flags = {True: ["--higher"], False: ["--lower"], None: []}
    return [*flags[action.higher], *_text(action.metric)]


def _text(text: str) -> list[str]:
    """A text as words of a command, which may look like a flag."""
    if text.startswith("-"):
        return ["--", text]
    return [text] if text else []
