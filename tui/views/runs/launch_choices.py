"""What can be launched on a machine, as the form lists it: in which order, and what cannot run."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.launch.planning import why_not_here
from runners.model.gpus import GpuReading
from runners.model.masked_plan import mask_tree
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.presets.catalogue import PresetEntry, find_preset, list_presets
from runners.presets.load import command_spec
from runners.state.layout import SHIPPED_PRESETS, StateDirectory
from tui.views.runs.resume_text import resumed_text
from tui.views.runs.run_view import RunView

OWN_COMMAND = "own command"
_TINY, _EXAMPLE = "-tiny", "example"
"""What ships to be tried first: over within minutes, on any machine, for nothing."""


class LaunchChoice(msgspec.Struct, frozen=True):
    """Something to launch: why it cannot run (`obstacle`), how a command names it (`start`)."""

    entry: PresetEntry
    obstacle: str = ""
    is_new: bool = False
    """A command that is typed in the form."""
    start: tuple[str, ...] = ()

    @property
    def goes_on(self) -> bool:
        """True of one run that goes on from its checkpoint: there is nothing to sweep."""
        return self.start[:1] == ("--resume",)

    @property
    def can_run(self) -> bool:
        """False when it cannot be loaded or cannot run."""
        return not self.obstacle and not self.entry.problem


class LaunchChoices(msgspec.Struct, frozen=True):
    """All of them, as one machine tells another; their secrets are masked."""

    choices: tuple[LaunchChoice, ...]


def own_command() -> LaunchChoice:
    """The choice to type a command."""
    example = "any command line, as in a shell: python train.py --epochs 10"
    spec = command_spec(["true"])
    return LaunchChoice(PresetEntry(OWN_COMMAND, "", (spec,), example), "", True)


def old_choice(state: StateDirectory, run: Run, resume: bool) -> LaunchChoice:
    """A run to go on from, or to launch again, as it was launched; FresnelError when it cannot."""
    if resume:
        found = resume_run(state, run)
        about = f"goes on from {run.name}: {resumed_text(run, found.checkpoint, found.spec)}"
        entry = PresetEntry(f"{run.name} resumed", "", (found.spec,), about)
    else:
        about = f"with the settings of {run.name}"
        entry = PresetEntry(f"{run.name} again", "", (relaunch_spec(state, run),), about)
    return LaunchChoice(entry, start=("--resume" if resume else "--again", run.id))


def read_choices(reading: GpuReading | None, runs: Sequence[RunView]) -> list[LaunchChoice]:
    """Every preset: those of the newest of `runs` first, unfit ones late, broken ones last.

    Unfit ones cannot run on these GPUs, broken ones cannot be loaded. Reads files: not for the
    thread that paints.
    """
    choices = []
    for entry in _in_order(list_presets(), runs):
        reasons = [] if entry.problem else [why_not_here(spec, reading) for spec in entry.specs]
        is_known = str(find_preset(entry.name)) == entry.path
        start = (entry.name if is_known else entry.path,)
        choices.append(LaunchChoice(entry, next(filter(None, reasons), ""), start=start))
    return sorted(choices, key=lambda choice: (bool(choice.entry.problem), bool(choice.obstacle)))


def masked(choice: LaunchChoice) -> LaunchChoice:
    """The choice as it may be sent: what is secret in its specs stays where it is."""
    specs = tuple(
        msgspec.convert(mask_tree(msgspec.to_builtins(spec)).tree, RunSpec)
        for spec in choice.entry.specs
    )
    entry = msgspec.structs.replace(choice.entry, specs=specs)
    return msgspec.structs.replace(choice, entry=entry)


def _in_order(entries: Sequence[PresetEntry], runs: Sequence[RunView]) -> list[PresetEntry]:
    """Those launched last stand first, then one's own, then what is over within minutes."""
    launched = last_runs(runs)
    never, shipped = float("-inf"), SHIPPED_PRESETS.resolve()

    def turn(entry: PresetEntry) -> tuple[float, bool, bool, str]:
        last = launched[entry.name].run.created if entry.name in launched else never
        is_quick = entry.name.endswith(_TINY) or entry.name == _EXAMPLE
        return -last, Path(entry.path).resolve().is_relative_to(shipped), not is_quick, entry.name

    return sorted(entries, key=turn)


def last_runs(runs: Sequence[RunView]) -> dict[str, RunView]:
    """The newest of `runs` of each preset; a group's preset has that of its newest member."""
    last: dict[str, RunView] = {}
    for view in runs:
        group = view.run.plan.spec.group.rpartition("-")[0] if view.run.plan else ""
        for name in filter(None, (view.run.preset, group)):
            if name not in last or last[name].run.created < view.run.created:
                last[name] = view
    return last
