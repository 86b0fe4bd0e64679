"""What another machine's launch form asks of this one: answered as a launch here would decide."""

import os
from collections.abc import Sequence

import msgspec

from runners.gpus.client import latest
from runners.host.files import current_folder, expanded, home_folder
from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, list_runs
from tui.snapshot.questions import LaunchQuestion, answer_launch
from tui.views.runs.launch_choices import LaunchChoices, masked, old_choice
from tui.views.runs.run_view import view_run

_NEWEST = 50
"""So many ended runs tell which presets were launched last."""


def enter(folder: object) -> None:
    """Go where commands of this link run, so that both find the same presets and files."""
    path = expanded(str(folder or home_folder()))
    path.mkdir(parents=True, exist_ok=True)
    if current_folder() != path:
        os.chdir(path)


def launch_answer(
    state: StateDirectory, question: LaunchQuestion, arguments: Sequence[str]
) -> dict[str, object]:
    """The answer as plain values. Raises what a launch by these arguments raises."""
    state.create()
    if question is LaunchQuestion.AGAIN or question is LaunchQuestion.RESUME:
        run = find_run(state, arguments[0])
        choice = old_choice(state, run, question is LaunchQuestion.RESUME)
        return _plain(LaunchChoices((masked(choice),)))
    is_listing = question is LaunchQuestion.CHOICES
    specs = [] if is_listing else _specs(arguments)
    ended = list_runs(state, _NEWEST) if is_listing else []
    runs = [view_run(run, brief=True) for run in ended]
    found = answer_launch(state, question, specs, latest(state), runs)
    if isinstance(found, LaunchChoices):
        found = LaunchChoices(tuple(masked(choice) for choice in found.choices))
    return _plain(found)


def _plain(value: msgspec.Struct) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(value)
    return plain


def _specs(arguments: Sequence[str]) -> list[RunSpec]:
    from tui.cli.arguments import parse
    from tui.cli.specs import specs_from

    parsed = parse(arguments) if arguments and arguments[0] == "launch" else None
    if parsed is None:
        raise WrongInput("this command line launches nothing")
    return specs_from(parsed)
