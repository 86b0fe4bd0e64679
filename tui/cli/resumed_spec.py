"""`launch --resume`: the spec that goes on from a run or from a checkpoint file."""

import argparse
from pathlib import Path

import msgspec

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.launch.resumed_spec import changes_on_resume, resumed
from runners.lifecycle.launch.variation import varied
from runners.model.errors import WrongInput
from runners.model.scaling import devices_of
from runners.model.spec import GpuRequest, RunSpec
from runners.presets.catalogue import resolve_runs
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import echo
from tui.views.runs.resume_text import resumed_text


def resumed_spec(arguments: argparse.Namespace, request: GpuRequest | None) -> RunSpec:
    """The spec that goes on from a run or a checkpoint file; what it goes on from is said."""
    state = StateDirectory()
    spec: RunSpec | None = None
    if arguments.preset is not None:
        specs = resolve_runs(arguments.preset, arguments.overrides, arguments.name)
        if len(specs) > 1:
            raise WrongInput(f"--resume: `{arguments.preset}` starts several runs", "resume one")
        spec = specs[0]
    elif arguments.again is not None:
        spec = relaunch_spec(state, find_run(state, arguments.again))
    elif arguments.command_words is not None:
        raise WrongInput("--resume goes with a preset or a run, not with a command behind --")
    path = Path(arguments.resume).expanduser()
    if path.exists():
        if spec is None:
            raise WrongInput(
                f"--resume {path}: resume it with which preset?",
                f"fresnel-tui launch PRESET --resume {path}",
            )
        echo(f"resumes from {path.resolve()}")
        return resumed(spec, path.resolve())
    found = resume_run(state, find_run(state, arguments.resume), spec)
    text = resumed_text(found.parent, found.checkpoint)
    echo(f"resumes {found.parent.id}: {text}")
    if spec is not None:
        return found.spec
    changed = varied(found.spec, arguments.overrides, arguments.name)
    before = relaunch_spec(state, found.parent)
    old_devices = found.parent.plan.processes if found.parent.plan is not None else 1
    new_devices = devices_of(changed, request or changed.gpus, old_devices)
    notes = changes_on_resume(before, changed, (old_devices, new_devices))
    return msgspec.structs.replace(changed, warnings=(*changed.warnings, *notes))
