"""The command line as a whole: which command is meant, its parser, and the help over all."""

import argparse
from collections.abc import Sequence
from importlib import import_module

from runners import __version__
from runners.model.errors import WrongInput
from runners.model.trailing_command import split_at_dashes
from runners.state.layout import preset_folders
from tui.cli.command_table import ALIASES, COMMANDS
from tui.cli.host_option import REMOTE_COMMANDS, host_help
from tui.cli.parsing import CommandParser, UsageError
from tui.views.panel_options import add_panel_options, spread_overrides

_EXIT_CODES = """\
exit codes:
  0 done   1 the run failed (or was stopped)   2 wrong input   3 not found   130 interrupted
  4 denied: GPUs are not free, the run is another host's, or its folder is open to others

RUN is a run's id, the beginning of one, a name (its newest run), or `last`.
With --json, errors are JSON too: {"error": {"code": …, "message": …, "hint": …}}.
All state is kept in $FRESNEL_STATE_DIR (default: $XDG_STATE_HOME/fresnel-tui).
"""
_EXAMPLES = """\
examples:
  fresnel-tui                                            the panel
  fresnel-tui launch gaussian-fast --follow              a preset
  fresnel-tui launch --gpus 1 -- python train.py         any command
  fresnel-tui list                                       the runs and their progress
  fresnel-tui COMMAND --help                             more on one command
"""
LAUNCHING = ("launch", "plan", "verify")
"""Commands of a program: one of a person's own stands behind `--`, with this folder."""
_WITH_COMMAND = (*LAUNCHING, "up", "host shell")
_SCRIPTS = (".py", ".sh", ".pl")
_STARTERS = ("python", "torchrun", "accelerate", "deepspeed", "mpirun")


def split_command(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before a bare `--`, and those behind it (None when there is no `--`)."""
    ours, command = split_at_dashes(argv)
    return spread_overrides(ours), command[1:] if command else None


def parse(argv: Sequence[str]) -> argparse.Namespace | None:
    """The command that `argv` name, with its flags; None when the help was asked for instead.

    Raises UsageError for what cannot be understood. `trailing_command` is what stands after `--`.
    """
    mine, command = split_command(argv)
    if mine[:1] == ["help"]:
        from tui.cli.topics import show_topic

        if show_topic(" ".join(mine[1:2])):
            return None
        mine = [*mine[1:2], "--help"]
    if not mine or mine[0] in ("-h", "--help"):
        print(overall_help())
        return None
    if mine[0] == "--version":
        print(f"fresnel-tui {__version__}")
        return None
    name = ALIASES.get(mine[0], mine[0])
    if name not in COMMANDS:
        raise _unknown(mine)
    if command is not None and not {name, " ".join(mine[:2])} & set(_WITH_COMMAND):
        raise UsageError(
            f"`-- COMMAND` goes with {', '.join(_WITH_COMMAND)}, not with {name}",
            "",
            command_parser(name).format_usage(),
        )
    parser = command_parser(name)
    try:
        arguments = parser.parse_args(mine[1:])
    except UsageError as error:
        raise UsageError(
            error.message, dashes_hint(name, mine[1:], command) or error.hint, error.usage
        ) from None
    arguments.trailing_command = command
    return arguments


def command_parser(name: str) -> CommandParser:
    """The parser of one command; nothing of what the command does is imported."""
    parser = CommandParser(prog=f"fresnel-tui {name}")
    declare(parser, name)
    return parser


def declare(parser: CommandParser, name: str) -> None:
    """Give `parser` the flags and the help of command `name`."""
    command = COMMANDS[name]
    parser.description = f"{command.summary[:1].upper()}{command.summary[1:]}."
    if command.aliases:
        parser.description += f" Also: {', '.join(command.aliases)}."
    if command.json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-ui", action="store_true", help=argparse.SUPPRESS)
    if name in REMOTE_COMMANDS and name != "gpus":
        parser.add_argument("--host", metavar="HOST", help=host_help(name))
    function = name.replace("-", "_")
    parser.set_defaults(command_name=name, action=f"{command.done}:run_{function}")
    declaring = import_module(f"tui.cli.commands.{command.declared}")
    getattr(declaring, f"declare_{function}")(parser)


def overall_help() -> str:
    """Every command in a line, by section, and the panel's own flags."""
    parts = ["usage: fresnel-tui [panel options]\n       fresnel-tui COMMAND [options]\n"]
    parts.append(
        "Launch, watch and stop training runs that survive the terminal they were started from.\n"
        "Without a command, the panel opens.\n"
    )
    sections: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        also = f" ({', '.join(command.aliases)})" if command.aliases else ""
        sections.setdefault(command.section, []).append(f"  {name:<11} {command.summary}{also}")
    parts += [f"{section}:\n" + "\n".join(lines) + "\n" for section, lines in sections.items()]
    panel = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    group = panel.add_argument_group("panel options")
    add_panel_options(group)
    from tui.cli.topics import topics

    parts.append(panel.format_help().strip() + "\n")
    pages = f"`fresnel-tui help TOPIC` prints a page: {', '.join(topics())}\n"
    return "\n".join([*parts, _EXAMPLES, _EXIT_CODES, pages])


def dashes_hint(name: str, argv: Sequence[str], command: Sequence[str] | None) -> str:
    """What to type when `argv` name a program where launch expects a preset; empty when not."""
    if name not in LAUNCHING or command is not None:
        return ""
    at = _first_positional(command_parser(name), argv)
    if at is None or not _is_program_like(argv[at]):
        return ""
    import shlex  # only for who forgot the dashes
    import shutil

    program = list(argv[at:])
    if program[0].endswith(".py") and not shutil.which(program[0]):
        program.insert(0, "python")
    line = ["fresnel-tui", name, *argv[:at], "--", *program]
    return f"a command goes after `--`: {shlex.join(line)}"


def _first_positional(parser: CommandParser, argv: Sequence[str]) -> int | None:
    skip = False
    for i, word in enumerate(argv):
        if skip:
            skip = False
        elif not word.startswith("-"):
            return i
        else:
            action = parser._option_string_actions.get(word)
            skip = action is not None and action.nargs != 0
    return None


def _is_program_like(word: str) -> bool:
    import shutil

    from runners.host.files import is_file

    if word.endswith((".yaml", ".yml")):
        return False
    known = word.endswith(_SCRIPTS) or word in _STARTERS
    return known or is_file(word) or shutil.which(word) is not None


def _unknown(argv: Sequence[str]) -> WrongInput:
    from runners.model.suggestions import did_you_mean  # only mistakes need it

    word, usage = argv[0], "usage: fresnel-tui COMMAND [options]\n"
    if word.startswith("-"):
        return UsageError(f"no flag {word} before a command", "fresnel-tui --help", usage)
    presets = {path.stem for folder in preset_folders() for path in folder.glob("*.y*ml")}
    hint = f"it is a preset: fresnel-tui launch {word}" if word in presets else ""
    if word.endswith(_SCRIPTS):
        hint = dashes_hint("launch", argv, None)
    hint = hint or did_you_mean(word, [*COMMANDS, *ALIASES]) or dashes_hint("launch", argv, None)
    return UsageError(f"no command `{word}`", hint or "`fresnel-tui --help` lists them", usage)
