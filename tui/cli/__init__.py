"""The headless front end: the same use cases for scripts. Data on stdout, words on stderr."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from runners.model.errors import ExitCode, FresnelError
from runners.state.layout import state_dir
from tui.cli.arguments import build_parser, split_command
from tui.cli.host_arguments import ELSEWHERE


def run_command(words: Sequence[str]) -> int:
    """Run one headless command and return its exit code."""
    mine, command = split_command(words)
    parser = build_parser()
    arguments = parser.parse_args(mine)
    if not hasattr(arguments, "action"):
        parser.print_help()
        return ExitCode.DONE if not words else ExitCode.WRONG_INPUT
    arguments.command_words = command
    if command is not None and arguments.command_name not in ("launch", "plan"):
        parser.error("`-- COMMAND` goes with launch and plan")
    try:
        if arguments.command_name in ELSEWHERE and isinstance(arguments.host, str):
            arguments.mine = list(words)
            arguments.action = "host_run:run_there"
        file, _, function = arguments.action.partition(":")
        return int(getattr(import_module(f"tui.cli.{file}"), function)(arguments))
    except FresnelError as error:
        print(f"fresnel-tui: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`… | head`): nothing more to say, and nowhere to say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except UnicodeEncodeError as error:
        print(f"fresnel-tui: not UTF-8 text: {error.object!r}", file=sys.stderr)
        return ExitCode.WRONG_INPUT
    except OSError as error:
        if not _has_folder():
            print(
                "fresnel-tui: the folder you are in has been deleted\n  cd to another one",
                file=sys.stderr,
            )
            return ExitCode.WRONG_INPUT
        # A full disk, a folder that may not be written: a traceback would say no more.
        print(
            f"fresnel-tui: {error.filename or state_dir()}: {error.strerror or error}",
            file=sys.stderr,
        )
        return ExitCode.RUN_FAILED


def _has_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 (pathlib would ask for more)
    except FileNotFoundError:
        return False
    return True
