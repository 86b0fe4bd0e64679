"""`presets`."""

import argparse

from runners.model.errors import ExitCode
from runners.presets.catalogue import PresetEntry, list_presets
from runners.presets.schema import json_schema
from tui.format import DASH, duration
from tui.headless.output import print_json, print_table, say


def run_presets(arguments: argparse.Namespace) -> int:
    """List the presets with what they need, or print the JSON Schema of their files."""
    if arguments.what == "schema":
        print_json(json_schema())
        return ExitCode.DONE
    entries = list_presets()
    if arguments.json:
        print_json([_json(entry) for entry in entries])
    else:
        print_table(("preset", "GPUs", "takes", "what it is"), [_row(entry) for entry in entries])
    for entry in entries:
        if entry.problem:
            say(f"not usable: {entry.problem}")
    return ExitCode.DONE


def describe_gpus(entry: PresetEntry) -> str:
    """How many GPUs a preset asks for, in short."""
    if entry.spec is None:
        return DASH
    request = entry.spec.gpus
    return "all" if request.all else ",".join(request.ids) or str(request.count)


def _row(entry: PresetEntry) -> tuple[str, ...]:
    spec = entry.spec
    takes = duration(spec.estimate.seconds) if spec else DASH
    return (entry.name, describe_gpus(entry), takes, spec.description if spec else "cannot be loaded")


def _json(entry: PresetEntry) -> dict[str, object]:
    spec = entry.spec
    return {
        "name": entry.name,
        "path": entry.path,
        "description": spec.description if spec else None,
        "launcher": spec.launcher if spec else None,
        "parameters": {p.name: p.value for p in spec.parameters} if spec else {},
        "problem": entry.problem,
    }
