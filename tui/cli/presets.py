"""`presets`."""

import argparse

from runners.model.spec import GpuRequest
from runners.model.units import indices
from runners.presets.catalogue import PresetEntry, list_presets
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH, duration


def run_presets(arguments: argparse.Namespace) -> None:
    """List the presets with what they need, print the JSON Schema of their files, or save one."""
    if arguments.what == "schema":
        from runners.presets.preset_schema import json_schema

        print_json(json_schema())
        return
    if arguments.what == "save":
        _save(arguments)
        return
    entries = list_presets()
    if arguments.json:
        print_json([_json(entry) for entry in entries])
    else:
        print_table(("preset", "GPUs", "takes", "what it is"), [_row(entry) for entry in entries])
    for entry in entries:
        if entry.problem:
            echo(f"not usable: {entry.problem}")


def _save(arguments: argparse.Namespace) -> None:
    from runners.lifecycle.control.relaunch import relaunch_spec  # the list does without
    from runners.presets.save import save_preset
    from runners.state.layout import StateDirectory
    from runners.state.runs import find_run

    state = StateDirectory()
    spec = relaunch_spec(state, find_run(state, arguments.run))
    path = save_preset(spec, arguments.name, arguments.overwrite)
    if arguments.json:
        print_json({"name": arguments.name, "path": str(path)})
    else:
        print(path)
        echo(f"fresnel-tui launch {arguments.name} launches it")


def describe_gpus(entry: PresetEntry) -> str:
    """How many GPUs a preset asks for, in short."""
    if not entry.specs:
        return DASH
    return " + ".join(describe_request(spec.gpus) for spec in entry.specs)


def describe_request(request: GpuRequest) -> str:
    """A wish for GPUs in the short form that people write."""
    if request.ids and all(name.isdecimal() for name in request.ids):
        return indices([int(name) for name in request.ids])
    return "all" if request.all else ",".join(request.ids) or str(request.count)


def _row(entry: PresetEntry) -> tuple[str, ...]:
    known = [spec.estimate.seconds for spec in entry.specs if spec.estimate.seconds is not None]
    takes = duration(max(known)) if known else DASH
    return (
        entry.name,
        describe_gpus(entry),
        takes,
        entry.description if entry.specs else "cannot be loaded",
    )


def _json(entry: PresetEntry) -> dict[str, object]:
    spec = entry.spec
    return {
        "name": entry.name,
        "path": entry.path,
        "description": entry.description or None,
        "launcher": spec.launcher if spec else None,
        "runs": [member.name for member in entry.specs],
        "parameters": {p.name: p.value for p in spec.parameters} if spec else {},
        "problem": entry.problem,
    }
