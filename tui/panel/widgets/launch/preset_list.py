"""The launch form's list of what can be launched: what is typed narrows it at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from runners.host.clock import age
from runners.model.spec import GpuRequest, RunSpec
from tui.panel.hotkeys import hotkey
from tui.panel.terminal.key_order import hold_keys, release_keys
from tui.panel.widgets.choice_list import ChoiceList
from tui.panel.widgets.gpu.picker import spell_ids
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import dollars, duration
from tui.views.runs.launch_choices import LaunchChoice, last_runs
from tui.views.runs.run_view import RunView


class _Filter(Input):
    """The line to type in; what is typed behind Enter is for the form, and waits for it."""

    async def action_submit(self) -> None:
        hold_keys(self.app)
        await super().action_submit()

    def on_unmount(self) -> None:
        """Nothing is waited for any longer."""
        release_keys(self.app)


class PresetList(Vertical):
    """A line to type in above the names. The arrows move the cursor while one types."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("down", "move('cursor_down')", "the next one"),
        hotkey("up", "move('cursor_up')", "the one before"),
        hotkey("pagedown", "move('page_down')", "a screen of them on"),
        hotkey("pageup", "move('page_up')", "a screen of them back"),
    ]

    class ChoiceMoved(Message):
        """The cursor is on another choice."""

        def __init__(self, choice: LaunchChoice) -> None:
            super().__init__()
            self.choice = choice

    class ChoiceEntered(Message):
        """Enter: go on to the form. `typed` is a command, where no preset has such a name."""

        def __init__(self, typed: str) -> None:
            super().__init__()
            self.typed = typed

    def __init__(self, snapshot: PanelSnapshot | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self._choices: Sequence[LaunchChoice] = ()
        self._shown: list[LaunchChoice] = []
        self._in_vain = False
        self._is_entered = False
        """Enter came before there was anything to choose: it counts when there is."""

    def compose(self) -> ComposeResult:
        yield _Filter(placeholder="type to filter: reading presets…", id="filter", compact=True)
        names = ChoiceList(id="names")
        # The line keeps the keys: letters filter at once while arrows move in the names.
        names.can_focus = False
        yield names

    @property
    def choice(self) -> LaunchChoice | None:
        """The one under the cursor."""
        place = self.query_one(OptionList).highlighted
        return self._shown[place] if place is not None and place < len(self._shown) else None

    def has_left(self, choice: LaunchChoice) -> bool:
        """Whether the cursor is on another one by now: keys repeat faster than a form is filled."""
        return self.choice not in (None, choice)

    def set_choices(self, choices: Sequence[LaunchChoice], keep: str = "") -> None:
        """List these choices.
        The cursor goes to the one called `keep`, else to the first that can run and needs nothing
        typed.
        """
        self._choices = choices
        self.query_one(Input).placeholder = "type to filter"
        self._lay_out(keep)

    def stand_aside(self, aside: bool, everywhere: bool) -> None:
        """Leave the cells to the form: on a narrow terminal, or everywhere."""
        self.set_class(aside, "aside")
        self.set_class(everywhere, "everywhere")

    def _lay_out(self, keep: str = "") -> None:
        names = self.query_one(OptionList)
        last = last_runs(self.snapshot.runs if self.snapshot else ())
        part = self.query_one(Input).value.strip().lower()
        shown = [choice for choice in self._choices if part in choice.entry.name.lower()]
        self._in_vain = not shown
        if self._in_vain:
            shown = [choice for choice in self._choices if choice.is_new]
        self._shown = shown
        names.clear_options()
        names.add_options(
            [Option(describe_choice(choice, last.get(choice.entry.name))) for choice in shown]
        )
        if shown:
            # Who types a whole name means that one, whatever stands above it.
            typed = (choice.entry.name for choice in shown if choice.entry.name.lower() == part)
            names.highlighted = _first(shown, keep or next(typed, ""))

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        event.stop()
        self._is_entered = False
        self._lay_out()

    @on(Input.Submitted)
    def _enter(self, event: Input.Submitted) -> None:
        event.stop()
        self._is_entered = not self._choices
        if not self._is_entered:
            self._announce()

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self.choice is not None:
            self.post_message(self.ChoiceMoved(self.choice))
        if self._is_entered and self._choices:
            self._is_entered = False
            self._announce()

    def _announce(self) -> None:
        """What was chosen: the name under the cursor, or what was typed where none has it."""
        typed = self.query_one(Input).value.strip()
        if self.choice is not None:
            # The names may tell of it only later, and the form would be another one's.
            self.post_message(self.ChoiceMoved(self.choice))
        self.post_message(self.ChoiceEntered(typed if self._in_vain else ""))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.ChoiceEntered(""))

    def action_move(self, how: str) -> None:
        getattr(self.query_one(OptionList), f"action_{how}")()


def _first(choices: Sequence[LaunchChoice], keep: str) -> int:
    for place, choice in enumerate(choices):
        if keep and choice.entry.name == keep:
            return place
    fit = (place for place, choice in enumerate(choices) if choice.can_run and not choice.is_new)
    return next(fit, 0)


def describe_choice(choice: LaunchChoice, last: RunView | None) -> Text:
    """The name, and below it what it needs, should take, and when it ran last.
    Or why it cannot run here.
    """
    entry = choice.entry
    if entry.problem:
        return Text.assemble((f"✘ {entry.name}", "red"), ("\n  cannot be loaded", "dim"))
    if choice.obstacle:
        return Text.assemble((f"⊘ {entry.name}", "dim"), (f"\n  {choice.obstacle}", "dim"))
    if choice.is_new:
        return Text.assemble((entry.name, "bold"), ("\n  type any command line", "dim"))
    needs = " + ".join(_needs(spec.gpus) for spec in entry.specs)
    facts = [needs, *([_estimate(entry.specs)] if _estimate(entry.specs) else [])]
    if last is not None:
        ago = duration(age(last.run.created, time.time()))
        facts.append(f"ran {ago} ago {dollars(last.money.cost)}".rstrip("— "))
    return Text.assemble(entry.name, ("\n  " + " · ".join(facts), "dim"))


def about_choice(choice: LaunchChoice, is_kept: bool) -> Text:
    """What it is; why it cannot run; whether its fields stand as they were left."""
    if choice.entry.problem:
        return Text(choice.entry.problem, style="red")
    about = Text(choice.entry.description, style="bold")
    if choice.obstacle:
        about.append(f"\ncannot run here: {choice.obstacle}", style="yellow")
    if is_kept:
        about.append("\nas you left it: F9 begins anew", style="yellow")
    return about


def _needs(request: GpuRequest) -> str:
    if not request.wants_gpus:
        return "CPU"
    if request.all:
        return "all GPUs"
    if request.ids:
        return f"GPU {request.ids[0] if len(request.ids) == 1 else spell_ids(request.ids)}"
    return f"{request.number} GPU{'s' if request.number > 1 else ''}"


def _estimate(specs: Sequence[RunSpec]) -> str:
    """`~2h00m $4`: the preset's own word; of several runs the longest, and the sum of money."""
    seconds = [spec.estimate.seconds for spec in specs if spec.estimate.seconds is not None]
    money = [f"${spec.estimate.usd}" for spec in specs if spec.estimate.usd is not None]
    return " ".join(
        [*([f"~{duration(max(seconds))}"] if seconds else []), " + ".join(money)]
    ).strip()
