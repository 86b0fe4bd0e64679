"""The headless front end: the same use cases for scripts. Data on stdout, words on stderr."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from runners.host.identity import is_attended
from runners.host.replaced_code import REPLACED, is_replaced
from runners.model.errors import ExitCode, FresnelError, UnknownPreset
from runners.state.layout import settings_file, state_dir
from tui.cli.arguments import LAUNCHING, dashes_hint, parse, split_command
from tui.cli.command_table import ALIASES
from tui.cli.host_option import may_take_host, take_host
from tui.cli.parsing import UsageError
from tui.views.safe import OUTPUT

_CODES = {
    ExitCode.RUN_FAILED: "failed",
    ExitCode.WRONG_INPUT: "wrong_input",
    ExitCode.NOT_FOUND: "not_found",
    ExitCode.DENIED: "denied",
    ExitCode.INTERRUPTED: "interrupted",
}
"""What an error is called in JSON, by its exit code."""
_REMOTE = "host_run:run_remotely"
_WARNED = frozenset({"launch", "plan", "list", "status", "monitor"})
"""Commands that say so when the settings cannot be read."""


def run_command(argv: Sequence[str]) -> int:
    """Run one headless command and return its exit code."""
    mine, command = split_command(argv)
    as_json = "--json" in mine
    try:
        remaining, name = take_host(argv) if may_take_host(argv) else (list(argv), "")
        arguments = parse(remaining)
        if arguments is None:
            sys.stdout.flush()
            return ExitCode.DONE
        arguments.remote_command = remaining
        if name:
            arguments.host = name
            is_command = arguments.trailing_command and arguments.command_name in LAUNCHING
            arguments.action = "pushed_command:run_pushed" if is_command else _REMOTE
        from runners.host.helpers import lean_msgspec  # `--help` needs none

        with lean_msgspec():
            import_module("msgspec")
        _refuse_unattended(remaining)
        if mine and mine[0] in _WARNED:
            _warn_of_settings()
        file, _, function = arguments.action.partition(":")
        action = getattr(import_module(f"tui.cli.{file}"), function)
        if not gc.isenabled():  # off since the program began
            gc.freeze()
            gc.enable()
        code = int(action(arguments) or ExitCode.DONE)
        sys.stdout.flush()  # not only at the very end, where nobody hears that the reader has gone
        return code
    except FresnelError as error:
        usage = error.usage if isinstance(error, UsageError) else ""
        hint = error.hint
        if isinstance(error, UnknownPreset):
            hint = dashes_hint(mine[0], mine[1:], command) or hint
        return _fail(error.exit_code, error.message, hint, as_json, usage)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return _interrupted(as_json and "--watch" not in mine)
    except BrokenPipeError:
        # The reader has gone (`… | head`): nothing more to say, and nowhere to say it.
        _discard_output()
        return ExitCode.DONE
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        # Of what is read no more than those bytes: it may be a secret.
        is_text = isinstance(error.object, str)
        odd = error.object if is_text else error.object[error.start : error.end]
        return _fail(ExitCode.WRONG_INPUT, f"not UTF-8 text: {odd!r}", "", as_json)
    except OSError as error:
        if not _has_folder():
            gone = "the current directory has been deleted"
            return _fail(ExitCode.WRONG_INPUT, gone, "cd to another directory", as_json)
        return _fail_by_system(error, as_json)
    except Exception as error:
        if not is_replaced():
            raise
        # Nothing more is imported: it would be of the other version.
        print(f"fresnel-tui: {REPLACED}; run the command again ({error!r})", file=sys.stderr)
        return ExitCode.RUN_FAILED


def _refuse_unattended(arguments: Sequence[str]) -> None:
    """Raise where settings keep a command from programs without a terminal."""
    if is_attended() or not settings_file().exists():
        return
    from runners.lifecycle.launch.unattended import refuse_command

    name = next((word for word in arguments if not word.startswith("-")), "")
    refuse_command(ALIASES.get(name, name))


def _warn_of_settings() -> None:
    """Say what is wrong with settings.yaml: until it is mended no notice of it is sent."""
    if not settings_file().exists():
        return
    from runners.presets.reading.user_settings import read_settings

    try:
        read_settings()
    except FresnelError as error:
        print(f"⚠ settings and notifications are ignored: {error}", file=sys.stderr)


def _fail(code: ExitCode, message: str, hint: str, as_json: bool, usage: str = "") -> ExitCode:
    """Tell people on stderr, and with --json programs on stdout."""
    from runners.model.masking import mask_text  # only mistakes need it

    message, hint = mask_text(message), mask_text(hint or "")
    tail = f"\n  {hint}" if hint else ""
    print(f"{usage}fresnel-tui: {message}{tail}", file=sys.stderr)
    if as_json:
        from tui.cli.output import print_json

        error = {"code": _CODES[code], "message": message, "hint": hint or None}
        try:
            print_json({"error": error})
        except OSError:  # it may be the output that takes no more
            _discard_output()
    return code


def _interrupted(is_document: bool) -> ExitCode:
    """Ctrl+C: said where a document is expected; a stream of lines has nothing to say of it."""
    code = ExitCode.INTERRUPTED
    return _fail(code, "interrupted", "", True) if is_document else code


def _fail_by_system(error: OSError, as_json: bool) -> ExitCode:
    """A full disk, a folder that may not be written: a traceback would say no more."""
    own = state_dir()
    where = str(error.filename or own)
    is_denied = error.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
    is_ours = is_denied and (Path(where) in (own, *own.parents) or own in Path(where).parents)
    hint = "FRESNEL_STATE_DIR=FOLDER keeps runs in another folder" if is_ours else ""
    if error.errno in (errno.ENOLCK, errno.ENOSYS):
        hint = "its file system takes no locks: FRESNEL_STATE_DIR=FOLDER keeps runs on a local disk"
    if where == OUTPUT:
        _discard_output()
        as_json = False
    return _fail(ExitCode.RUN_FAILED, f"{where}: {error.strerror or error}", hint, as_json)


def _discard_output() -> None:
    """What is left of the output goes nowhere: the interpreter would complain of it as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _has_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 (pathlib would ask for more)
    except FileNotFoundError:
        return False
    return True
