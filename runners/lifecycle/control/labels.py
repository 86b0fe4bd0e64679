"""What people add to runs: rename, tag, untag, note, star, best metric. For any run, live or ended.

Each raises NotFound when the run was deleted, FresnelError when its labels cannot be written.
"""

from collections.abc import Callable, Iterable

import msgspec

from runners.host.files import is_there
from runners.lifecycle.launch.preconditions import refuse_untrusted
from runners.model.errors import FresnelError, NotFound, WrongInput
from runners.model.metric_rule import BestMetric
from runners.model.run import Labels, Run
from runners.state.labels_file import change_labels
from runners.state.layout import StateDirectory

LONGEST_NAME = 80
LONGEST_TAG = 40
LONGEST_NOTE = 10_000
LONGEST_METRIC = 400


def rename(state: StateDirectory, run: Run, name: str) -> Labels:
    """Give `run` another name, by which it is found from then on; empty: that of its launch.

    Raises WrongInput for a name that could not be typed or is another run's id, NotFound and
    FresnelError as all of these do.
    """
    name = name.strip()
    if name:
        _check_name(state, run, name)
    launched = run.plan.spec.name if run.plan else ""
    # The name of the launch is the default, and needs no label.
    kept = "" if name == launched else name
    return _change(state, run, lambda _: {"name": kept})


def tag(state: StateDirectory, run: Run, tags: Iterable[str]) -> Labels:
    """Add `tags` to those of `run`. Raises WrongInput for one with blanks, commas or colons."""
    added = [_checked_tag(text) for text in tags]
    return _change(
        state, run, lambda labels: {"tags": tuple(dict.fromkeys((*labels.tags, *added)))}
    )


def untag(state: StateDirectory, run: Run, tags: Iterable[str] | None) -> Labels:
    """Remove `tags`, or all, from `run`."""
    gone = None if tags is None else set(tags)

    def kept(labels: Labels) -> tuple[str, ...]:
        return () if gone is None else tuple(tag for tag in labels.tags if tag not in gone)

    return _change(state, run, lambda labels: {"tags": kept(labels)})


def note(state: StateDirectory, run: Run, text: str) -> Labels:
    """Write a note on `run`, in place of the one that is there; empty: none. Raises WrongInput."""
    text = checked_note(text)
    return _change(state, run, lambda _: {"note": text})


def checked_note(text: str) -> str:
    """The text of a note as it is kept, of one line or several; WrongInput for what is none."""
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    if len(text) > LONGEST_NOTE:
        raise WrongInput(
            f"the note has {len(text):,} characters; {LONGEST_NOTE:,} is the most",
            "keep long texts in a file, and note its path",
        )
    if any(not char.isprintable() and char not in "\n\t" for char in text):
        raise WrongInput("the note holds characters that cannot be shown", "leave them out")
    return text


def star(state: StateDirectory, run: Run, starred: bool = True) -> Labels:
    """Mark `run` as one to keep, or remove the mark; `prune` leaves such runs alone."""
    return _change(state, run, lambda _: {"starred": starred})


def judge_by(state: StateDirectory, run: Run, metric: str, higher: bool | None = None) -> Labels:
    """Judge `run` by a metric, of which more is better if `higher`; empty: as its preset says.

    Raises WrongInput for a name that cannot be shown.
    """
    if len(metric) > LONGEST_METRIC or not metric.isprintable():
        raise WrongInput(f"metric {metric[:80]!r}: expected a name that can be shown")
    best = BestMetric(metric, higher) if metric else None
    return _change(state, run, lambda _: {"best": best})


def _check_name(state: StateDirectory, run: Run, name: str) -> None:
    if len(name) > LONGEST_NAME:
        raise WrongInput(f"the name has {len(name)} characters; {LONGEST_NAME} is the most")
    # Names are shown in terminals: an escape sequence in one would be carried out there.
    if any(not char.isprintable() for char in name):
        raise WrongInput(f"name {name!r}: holds characters that cannot be shown")
    # `last` is the newest run to every command, and a dash begins a flag.
    if name == "last" or name.startswith("-"):
        raise WrongInput(f"name {name!r}: means something else at the command line")
    # An id must always mean its own run.
    if name != run.id and is_there(state.runs / name.replace("/", "_")):
        raise WrongInput(f"name {name!r}: is the id of another run")


def _checked_tag(text: str) -> str:
    ok = text and len(text) <= LONGEST_TAG and text.isprintable() and not text.startswith("-")
    if not ok or any(char.isspace() or char in ",:" for char in text):
        raise WrongInput(
            f"tag {text!r}: expected one word of at most {LONGEST_TAG} characters",
            "without blanks, commas and colons, so that `tag:good` finds it",
        )
    return text


def _change(
    state: StateDirectory, run: Run, change: Callable[[Labels], dict[str, object]]
) -> Labels:
    """Give the labels of `run` other values in the fields that `change` names."""
    refuse_untrusted(state)

    def changed(labels: Labels) -> Labels:
        return msgspec.structs.replace(labels, **change(labels))

    try:
        return change_labels(state.run(run.id), changed)
    except FileNotFoundError:
        raise NotFound(f"{run.id} has been deleted", "`fresnel-tui undelete` lists these") from None
    except OSError as error:
        raise FresnelError(f"{run.id}: labels.json cannot be written: {error.strerror}") from None
