"""What the run's interpreter can import and see: asked in that interpreter, with a time limit."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from runners.host.files import is_file, is_there
from runners.host.run_in_time import run_in_time
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.program_options import options_of, read_script
from runners.model.python_command import python_command, python_script
from runners.state.decoding import any_json, decode
from runners.verify.facts import InterpreterFacts, StartFacts

SCRIPT = Path(__file__).with_name("interpreter_script.py")
PATIENCE_S = 120.0
"""Importing torch from a cold network disk takes minutes; beyond this, something hangs."""
_LEVELS = 4
"""Folders above a script in which its own packages may be."""


def ask_interpreter(
    argv: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    imports: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
) -> InterpreterFacts | None:
    """What the Python that `argv` runs can import of what its program needs, and what torch sees.

    None when it does not run Python.
    """
    interpreter = interpreter_of(argv, environment, folder)
    if interpreter is None:
        return None
    script = present_script(argv, folder)
    wanted = list(dict.fromkeys([*imports, *(imports_of(script) if script is not None else ())]))
    request = {
        "imports": wanted,
        "torch": "torch" in wanted or _is_launched_by_torch(argv),
        "folder": str(script.parent if script is not None else folder),
        "module": command.module if (command := python_command(argv)) else "",
    }
    try:
        done = run_in_time(
            [str(interpreter), str(SCRIPT), json.dumps(request)],
            patience_s,
            cwd=folder,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired:
        problem = f"importing {', '.join(wanted) or 'nothing'} did not end within {patience_s:g} s"
        return InterpreterFacts(str(interpreter), problem=problem)
    except OSError as error:
        return InterpreterFacts(str(interpreter), problem=error.strerror or str(error))
    found: Any = decode(done.stdout, any_json)
    try:
        more = {"path": str(interpreter), "extends_path": _extends_path(script)}
        return msgspec.convert({**found, **more}, InterpreterFacts)
    except (msgspec.ValidationError, TypeError):
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = errors[-1][:200] if errors else "without a word"
        return InterpreterFacts(
            str(interpreter), problem=f"ended with exit code {done.returncode}: {last}"
        )


def present_script(argv: Sequence[str], folder: Path) -> Path | None:
    """The file that `argv` runs by Python, where it is there."""
    script = python_script(argv, folder)
    return script if script is not None and is_file(script) else None


def start_facts(argv: Sequence[str], folder: Path) -> StartFacts | None:
    """What `argv` runs by Python, and what of it is not there; None for another program."""
    command = python_command(argv)
    if command is None:
        return None
    script = python_script(argv, folder)
    exists = script is None or is_there(script)
    unknown: list[tuple[str, str]] = []
    present = present_script(argv, folder)
    options = options_of(present) if present is not None else None
    if options is not None:
        for flag in options.unknown(command.arguments):
            near = get_close_matches(flag, options.names, 1)
            unknown.append((flag, near[0] if near else ""))
    return StartFacts(
        str(script or ""),
        exists,
        command.module,
        command.launcher,
        command.processes,
        tuple(unknown),
    )


def imports_of(script: Path) -> Iterator[str]:
    """Third-party modules that a program imports whenever it starts.

    Those of its top level outside try and if; without the standard library's and those
    beside or above the program.
    """
    # Imports inside functions, try or if may never run, so their absence is not a failure.
    for node in read_script(script).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            own = any(
                is_there(place / name)
                for place in list(script.resolve().parents)[:_LEVELS]
                for name in (f"{top}.py", top)
            )
            if top not in sys.stdlib_module_names and not own:
                yield top


def _extends_path(script: Path | None) -> bool:
    """Whether a program itself says where more modules are, which only its run shows."""
    nodes = ast.walk(read_script(script)) if script is not None else ()
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        for node in nodes
    )


def _is_launched_by_torch(argv: Sequence[str]) -> bool:
    return any(word in ("torch.distributed.run", "accelerate.commands.launch") for word in argv)
