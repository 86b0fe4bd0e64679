"""The launch form's fields of a sweep: several values of a parameter make one run for each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rich.text import Text

from runners.lifecycle.launch.sweep import Sweep, SweepWish
from runners.model.errors import WrongInput
from tui.panel.widgets.launch.common_fields import DetailField, whole_number
from tui.panel.widgets.named_lines import NamedLines

VALUES = DetailField(
    "values",
    "lr=1e-4,3e-4 seed=0..2",
    "values for {NAME} in the command, a run for each: lr=1e-4,3e-4 seed=0..2",
)
"""Only an own command has it: the fields of a preset take several values themselves."""
SWEEP_FIELDS = (
    DetailField(
        "samples", "all", "of a sweep: N random combinations; ranges too, lr=1e-5..1e-3:log"
    ),
    DetailField(
        "sampler",
        "random",
        "with samples: who suggests values from the results so far, for the lowest loss: tpe, gp "
        "(Gaussian process), cmaes (evolution); qmc spreads them evenly; tpe:METRIC for another",
    ),
    DetailField("sample-seed", "0", "the same number, the same samples"),
    DetailField("parallel", "no limit", "at most this many runs of a sweep at once"),
    DetailField(
        "early-stop",
        "never",
        "median: stop runs that are worse than half of the others were by then; median:METRIC",
    ),
)
_NAMES = 3
"""So many of a sweep are named, and the last."""
_FLAG = re.compile(r"--(?:set )?(?=[a-z])")


def sweep_request(texts: Mapping[str, str], name: str) -> SweepWish:
    """What was typed; WrongInput names the field that is no number."""
    return SweepWish(
        whole_number("samples", texts.get("samples", "")),
        whole_number("sample-seed", texts.get("sample-seed", "")) or 0,
        texts.get("sampler") or None,
        whole_number("parallel", texts.get("parallel", "")),
        texts.get("early-stop") or None,
        name,
    )


def sweep_arguments(texts: Mapping[str, str]) -> list[str]:
    """The headless flags for what was typed."""
    return [
        word
        for field in SWEEP_FIELDS
        if texts.get(field.key)
        for word in (f"--{field.key}", texts[field.key])
    ]


def as_fields(error: WrongInput) -> WrongInput:
    """The error with the names of fields where a command line has flags."""
    return WrongInput(_FLAG.sub("", error.message), _FLAG.sub("", error.hint or ""))


def add_sweep(lines: NamedLines, sweep: Sweep, starts: str) -> None:
    """How many runs there are, how many start now, their names; the plan below is the first's."""
    lines.add("sweep", sweep.size, "bold")
    if starts:
        lines.add("GPUs", starts, "bold")
    names = [spec.name for spec in sweep.specs]
    for name in (
        *names[:_NAMES],
        *(["…"] if len(names) > _NAMES + 1 else []),
        *names[_NAMES:][-1:],
    ):
        lines.add("sweep", name)
    for note in sweep.notes:
        lines.add("note", note, "yellow")
    lines.add_text(Text("The first of them:\n", style="bold"))
