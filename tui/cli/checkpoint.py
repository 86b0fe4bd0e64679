"""`checkpoint inspect | remap | strip | average`: torch is opened by another interpreter only."""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from runners.host.files import expanded
from runners.lifecycle.control.resume import newest_checkpoint
from runners.model.errors import NotFound, WrongInput
from runners.presets.catalogue import resolve_preset
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from runners.verify.checkpoint_tool import CheckpointToolError, ask_checkpoint_tool
from tui.cli.output import echo, print_json, print_pairs, print_table
from tui.views.format import size

_SHOWN_KEYS = 40


def run_checkpoint(arguments: argparse.Namespace) -> None:
    """Do what was asked of the files; exit 2 with one sentence when one cannot be used."""
    request = {
        "do": arguments.what,
        "paths": [checkpoint_path(word, StateDirectory()) for word in arguments.paths],
        "device": arguments.device,
        "output": str(expanded(arguments.output).absolute()) if arguments.output else "",
    }
    found = _ask(choose_interpreter(arguments.python, arguments.preset), request)
    if arguments.json:
        print_json(found)
    else:
        for i, file in enumerate(found):
            if i:
                print()
            _print_inspected(file) if arguments.what == "inspect" else _print_written(file)


def checkpoint_path(word: str, state: StateDirectory) -> str:
    """A file by its path, or a run's newest checkpoint by the run's name; raises NotFound."""
    path = expanded(word).absolute()
    if "/" in word or path.exists():
        return str(path)
    try:
        run = find_run(state, word)
    except (NotFound, WrongInput):
        return str(path)  # that there is no such file is said by who opens it
    return newest_checkpoint(run).path


def choose_interpreter(named: str | None, preset: str | None = None) -> str:
    """The interpreter named, that of a preset, or our own; raises WrongInput when there is none."""
    word, folder = named or sys.executable, Path.cwd()
    if not named and preset:
        spec = resolve_preset(preset)
        word = spec.interpreter.replace("${python}", sys.executable)
        folder = expanded(spec.working_directory or ".")
        if "${" in f"{word}{folder}":
            raise WrongInput(
                f"the interpreter of `{preset}` is known only at a launch: {word}",
                "name it with --python",
            )
    path = expanded(word)
    found = shutil.which(str(folder / path) if "/" in word else word)
    if found is None and word == "python":
        found = shutil.which("python3")
    if found is None:
        raise WrongInput(f"no interpreter `{word}`", "--python takes a program's path or name")
    return found


def _ask(interpreter: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool's answer; raises WrongInput with its words when a file cannot be used."""
    try:
        return ask_checkpoint_tool(interpreter, request)
    except CheckpointToolError as error:
        if error.answered:
            raise WrongInput(error.message, "nothing was written") from None
        raise WrongInput(
            f"{interpreter} could not open the files: {error.message}",
            "does this Python have PyTorch?",
        ) from None


def _print_inspected(file: dict[str, Any]) -> None:
    devices = ", ".join(f"{name} {size(count)}" for name, count in file["devices"].items())
    pairs = [
        ("file", file["path"]),
        ("size", size(file["bytes"])),
        ("format", file["format"]),
        ("written by", file["written_by"] or "unknown from its keys"),
        ("holds", ", ".join(file["top_level"])),
        ("step", ", ".join(f"{name} {value}" for name, value in file["step"].items())),
        ("devices", devices),
        ("wrappers", ", ".join(file["wrappers"]) or "none"),
        ("tensors", f"{file['tensors']:,}, parameters {file['parameters']:,}"),
    ]
    print_pairs([(name, value) for name, value in pairs if value])
    rows = [
        (key["key"], "×".join(map(str, key["shape"])) or "scalar", key["dtype"])
        for key in file["keys"][:_SHOWN_KEYS]
    ]
    if rows:
        print()
        print_table(("key", "shape", "type"), rows)
    if file["tensors"] > len(rows):
        echo(f"{file['tensors'] - len(rows):,} more keys: --json lists them")


def _print_written(file: dict[str, Any]) -> None:
    print(file["written"])
    if "renamed" in file:
        echo(f"keys renamed: {file['renamed']:,}")
    if "to" in file:
        echo(f"from {', '.join(file['from'])} to {file['to']}")
    if "averaged" in file:
        left = f"; left out: {', '.join(file['left_out'])}" if file["left_out"] else ""
        echo(f"{file['averaged']:,} tensors averaged over {file['of']} files{left}")
