"""`completion`, and what the shell offers at every Tab.

The shell starts this program for each Tab, so it imports little; and it leaves no trace:
nothing is created or touched, no sampler is started, no run is adopted.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from runners.gpus.client import latest
from runners.model.course import RunEnd
from runners.model.errors import FresnelError, WrongInput
from runners.model.run import Run
from runners.model.spec import CheckGroup, RunSpec
from runners.model.states import State
from runners.state.labels_file import read_labels
from runners.state.layout import StateDirectory, preset_folders
from runners.state.leases import live_run_ids
from runners.state.runs import find_run, list_run_ids, read_run
from tui.cli.arguments import declare
from tui.cli.command_table import COMMANDS
from tui.cli.output import print_json
from tui.cli.parsing import CommandParser

_NEWEST = 20
"""So many ended runs are offered: what a person looks for with Tab is seldom older."""
_YAML = (".yaml", ".yml")
_ENDS = get_args(RunEnd)

_INSTALLING = {
    "bash": 'add to ~/.bashrc:  eval "$(fresnel-tui completion bash)"',
    "zsh": 'add to ~/.zshrc, behind compinit:  eval "$(fresnel-tui completion zsh)"',
    "fish": "fresnel-tui completion fish > ~/.config/fish/completions/fresnel-tui.fish",
}
# Both keep our order, live runs first. Before bash 4.4 there was none to keep: then the line above
# this one stands.
_IN_ORDER = {
    "bash": "complete -o nosort -o nospace -F _python_argcomplete fresnel-tui 2> /dev/null || "
    "true\n",
    "zsh": "",
    "fish": "complete --command fresnel-tui --erase\n"
    "complete --command fresnel-tui -k -f -a '(__fish_fresnel-tui_complete)'\n",
}

if TYPE_CHECKING:
    from runners.presets.declared_keys import DeclaredKey

Offers = Mapping[str, str]
"""What may be typed, in the order to show it, each with a few words on it."""


def run_completion(arguments: argparse.Namespace) -> None:
    """Print the shell's script; a person at a terminal is told where to put it."""
    try:
        shellcode = import_module("argcomplete").shellcode
    except ImportError:
        raise WrongInput("completion needs argcomplete", "pip install argcomplete") from None
    script = shellcode(["fresnel-tui"], shell=arguments.shell) + _IN_ORDER[arguments.shell]
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
        return
    print(script)
    if sys.stdout.isatty():
        print(_INSTALLING[arguments.shell], file=sys.stderr)


def answer() -> None:
    """Tell the shell what fits at the cursor of its line (`COMP_LINE`, `COMP_POINT`), and exit."""
    from argcomplete.finders import CompletionFinder

    from tui.views.panel_options import add_panel_options

    line, point = os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT", "0"))
    parser = _parser_of(line)
    add_panel_options(parser)
    for each in _parsers(parser):
        for action in each._actions:
            offer = _OFFERS.get(str(action.metavar))
            # By the placeholder of the help: every command that takes a RUN completes alike.
            if offer is not None:
                action.completer = _quietly(offer)  # type: ignore[attr-defined]
    if " -- " in line[:point]:
        # Somebody else's command: files are all that can be said.
        parser = argparse.ArgumentParser(add_help=False)
        files = import_module("argcomplete").FilesCompleter()
        parser.add_argument("arguments", nargs="*").completer = files  # type: ignore[attr-defined]
    # What has no completer of its own is somebody's own word: a name, a number.
    default: Any = _nothing  # argcomplete's annotation wants its own base class
    CompletionFinder()(parser, always_complete_options=False, default_completer=default)


def _parser_of(line: str) -> argparse.ArgumentParser:
    """A parser of all commands by name; of the one on the line with its flags too."""
    parser = argparse.ArgumentParser(prog="fresnel-tui")
    parser.add_argument("--version", action="version", version="")
    parser.add_argument("--no-ui", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(
        metavar="COMMAND", dest="command_name", parser_class=CommandParser
    )
    typed = set(line.split())
    for name, entry in COMMANDS.items():
        for spelled in (name, *(alias for alias in entry.aliases if alias in typed)):
            command = commands.add_parser(spelled, help=entry.summary)
            command.in_order = True
            if spelled in typed:
                declare(command, name)
    return parser


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from _parsers(choice)


def _nothing(**_: object) -> tuple[str, ...]:
    return ()


def _quietly(offer: "Callable[[str, argparse.Namespace], Offers]") -> Callable[..., Offers]:
    """A completer for argcomplete; an unreadable preset offers nothing, prints nothing."""

    def complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Offers:
        try:
            return offer(prefix, parsed_args)
        except (FresnelError, OSError):
            return {}

    return complete


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


_LIVE_ONLY = frozenset({"stop", "kill", "pause", "continue", "cancel", "priority", "extend"})
_ENDED_ONLY = frozenset({"fetched", "delete"})


def _offer_runs(prefix: str, arguments: argparse.Namespace) -> Offers:
    """Ids, names and groups that the command takes: live runs, then the newest ended ones."""
    command = getattr(arguments, "command_name", "")
    given = set(getattr(arguments, "runs", None) or ())
    state = StateDirectory()
    live = live_run_ids(state)
    ids = list_run_ids(state) if command not in _LIVE_ONLY else []
    ended = (run_id for run_id in reversed(ids) if run_id not in live)
    newest = list(islice(ended, _NEWEST)) if ids else []
    older = (run_id for run_id in ended if prefix and run_id.startswith(prefix))
    offers: dict[str, str] = {}
    for group in (reversed(live) if command not in _ENDED_ONLY else (), newest):
        found = [read_run(state, run_id) for run_id in group]
        if command in ("cancel", "priority"):
            found = [run for run in found if run.state is State.QUEUED]
        offers |= {run.id: _about(run) for run in found}
        for run in found:
            offers.setdefault(run.name, _about(run))
            if run.plan is not None and run.plan.spec.group:
                offers.setdefault(run.plan.spec.group, "a group")
    offers |= dict.fromkeys(islice(older, _NEWEST), "ended")
    if newest and "last" not in offers:
        offers["last"] = "the newest run"
    return {name: text for name, text in offers.items() if name and name not in given}


def _offer_deleted(prefix: str, arguments: argparse.Namespace) -> Offers:
    from runners.lifecycle.control.trash import list_deleted

    given = set(getattr(arguments, "runs", None) or ())
    deleted = list(reversed(list_deleted(StateDirectory())))
    offers = {run.id: f"{run.name} {run.state}" for run in deleted}
    offers |= {run.name: f"{run.state}" for run in deleted if run.name not in offers}
    return {name: text for name, text in offers.items() if name and name not in given}


def _offer_tags(prefix: str, arguments: argparse.Namespace) -> Offers:
    """The tags of the newest runs; to take away, those that the run on the line has."""
    state = StateDirectory()
    name = getattr(arguments, "run", None)
    given = set(getattr(arguments, "tags", None) or ())
    if getattr(arguments, "command_name", "") == "untag" and name:
        tags = find_run(state, name).labels.tags
    else:
        newest = list_run_ids(state)[-10 * _NEWEST :]
        tags = tuple(
            tag for run_id in reversed(newest) for tag in read_labels(state.run(run_id)).tags
        )
    return dict.fromkeys((tag for tag in dict.fromkeys(tags) if tag not in given), "")


def _about(run: Run) -> str:
    return f"{run.name} {run.state}"


def _offer_runs_to_wait_for(prefix: str, arguments: argparse.Namespace) -> Offers:
    name, colon, _ = prefix.partition(":")
    if colon:
        return {f"{name}:{condition}": "" for condition in _ENDS}
    return _offer_runs(prefix, arguments)


# ── presets and their parameters ──────────────────────────────────────────────────────────────────


def _offer_presets(prefix: str, arguments: argparse.Namespace) -> Offers:
    """Names of presets, which are not opened; YAML files where a path is being typed."""
    from runners.presets.catalogue import NOT_PRESETS

    named = {
        path.stem: ""
        for folder in preset_folders()
        for path in sorted(folder.glob("*.y*ml"))
        if path.suffix in _YAML
    }
    offers = {name: "" for name in sorted(named) if name not in NOT_PRESETS}
    # Files only where no preset fits: a folder full of YAML would hide them.
    if any(name.startswith(prefix) for name in offers) and "/" not in prefix:
        return offers
    return dict.fromkeys(
        import_module("argcomplete").FilesCompleter([kind[1:] for kind in _YAML])(prefix), ""
    )


def _offer_counted_presets(prefix: str, arguments: argparse.Namespace) -> Offers:
    if getattr(arguments, "what", "") != "plan" or ":" in prefix:
        return {}
    return {f"{name}:": "" for name in _offer_presets("", arguments)}


def _offer_settings(prefix: str, arguments: argparse.Namespace) -> Offers:
    """`KEY=` for the parameters of the preset or run on the line; behind the `=`, known values."""
    specs = _specs(arguments)
    parameters = {
        (f"{spec.name}." if spec.group else "") + parameter.name: parameter
        for spec in specs
        for parameter in spec.parameters
    }
    key, equals, _ = prefix.partition("=")
    if not equals:
        own = {
            f"{name}=": f"{parameter.value}{parameter.help and ': '}{parameter.help}"
            for name, parameter in parameters.items()
        }
        # Those of a preset once the beginning of one is typed: there are many.
        keys = _keys_at(prefix, arguments) if prefix else []
        return {**own, **{f"{known.name}=": known.description for known in keys}}
    if key not in parameters:
        return {
            f"{key}={choice}": ""
            for known in _keys_at(key, arguments)
            for choice in known.choices
            if known.name == key
        }
    from runners.model.units import as_text

    parameter = parameters[key]
    values = parameter.choices or (
        (True, False) if parameter.type == "bool" else (parameter.value,)
    )
    return {
        f"{key}={as_text(value)}": parameter.help
        for value in values
        if not isinstance(value, tuple)
    }


def _keys_at(prefix: str, arguments: argparse.Namespace) -> "list[DeclaredKey]":
    """The keys that may stand there; those of a part behind its dot. A run's own are few."""
    from runners.presets.declared_keys import declared_keys

    keys = declared_keys(prefix.rpartition(".")[0])
    if getattr(arguments, "again", None) or getattr(arguments, "resume", None):
        from runners.lifecycle.launch.variation import CHANGEABLE

        return [known for known in keys if known.name in CHANGEABLE]
    return [known for known in keys if known.name != "parameters"]


def _specs(arguments: argparse.Namespace) -> list[RunSpec]:
    again = getattr(arguments, "again", None)
    if again:
        from runners.lifecycle.control.relaunch import relaunch_spec

        return [relaunch_spec(StateDirectory(), find_run(StateDirectory(), again))]
    preset = getattr(arguments, "preset", None) or getattr(arguments, "launch", None)
    if not preset:
        return []
    from runners.presets.catalogue import resolve_runs

    return resolve_runs(preset)


# ── money and GPUs ────────────────────────────────────────────────────────────────────────────────


def _offer_prices(prefix: str, arguments: argparse.Namespace) -> Offers:
    from runners.cost.prices import list_prices

    return {
        price.name: f"${price.usd_per_hour}/h per {price.per}, {price.gpu}"
        for price in list_prices()
    }


def _offer_gpus(prefix: str, arguments: argparse.Namespace) -> Offers:
    """Indices of this host's GPUs as last sampled, added to those before the last comma."""
    reading = latest(StateDirectory())
    if reading is None:
        return {}
    before, comma, _ = prefix.rpartition(",")
    given = before.split(",")
    return {
        f"{before}{comma}{gpu.index}": f"{gpu.name}{' (simulated)' if gpu.simulated else ''}"
        for gpu in reading.gpus
        if str(gpu.index) not in given
    }


def _offer_hosts(prefix: str, arguments: argparse.Namespace) -> Offers:
    from runners.places.ssh.registry import RemoteRegistry

    return {host.name: host.address for host in RemoteRegistry(StateDirectory()).all()}


def _offer_remedies(prefix: str, arguments: argparse.Namespace) -> Offers:
    from runners.diagnosis.remedy_names import REMEDIES

    return REMEDIES


_OFFERS: dict[str, Callable[[str, argparse.Namespace], Offers]] = {
    "RUN": _offer_runs,
    f"RUN[:{'|'.join(_ENDS)}]": _offer_runs_to_wait_for,
    "PRESET": _offer_presets,
    "PRESET:COUNT": _offer_counted_presets,
    "KEY=VALUE": _offer_settings,
    "NAME|USD": _offer_prices,
    "IDS": _offer_gpus,
    "HOST": _offer_hosts,
    "CHECKS": lambda *_: dict.fromkeys(get_args(CheckGroup), ""),
    "REMEDY": _offer_remedies,
    "DELETED": _offer_deleted,
    "TAG": _offer_tags,
    "COMMAND": lambda *_: {name: entry.summary for name, entry in COMMANDS.items() if entry.json},
    "median[:METRIC]": lambda *_: {"median": "worse than the median of the others so far"},
}
"""By what a command's help calls the argument."""
