"""`launch --resume`: the spec that goes on from a run or from a checkpoint file."""

import argparse
from pathlib import Path

import msgspec

from runners.host.files import expanded
from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.launch.resumed_spec import changes_on_resume, resumed
from runners.lifecycle.launch.variation import varied
from runners.model.errors import FresnelError, WrongInput
from runners.model.python_command import devices_in_all, devices_of
from runners.model.spec import GpuRequest, RunSpec
from runners.presets.catalogue import resolve_runs
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import echo


class ResumedSource:
    """A run, or a preset with a checkpoint file, that goes on; what it goes on from is said."""

    open_ended = False

    def __init__(self, arguments: argparse.Namespace, request: GpuRequest | None) -> None:
        self.preset: str | None = arguments.preset
        self.again: str | None = arguments.again
        self.has_command = arguments.trailing_command is not None
        self.resume: str = arguments.resume
        self.request = request

    def takes_several(self, key: str) -> bool:
        """Never: one run goes on from one checkpoint."""
        return False

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The one spec that goes on; WrongInput where it is not clear from what."""
        state = StateDirectory()
        spec = self._named(state, overrides, name)
        path = expanded(self.resume)
        if self._is_path(state, path, has_preset=spec is not None):
            if spec is None:
                raise WrongInput(
                    f"--resume {path}: resume it with which preset?",
                    f"fresnel-tui launch PRESET --resume {path}",
                )
            echo(f"resumes from {path.resolve()}")
            return [resumed(spec, path.resolve())]
        from tui.views.runs.resume_text import resumed_text  # only where something is resumed

        found = resume_run(state, find_run(state, self.resume), spec)
        changed = found.spec if spec is not None else varied(found.spec, overrides, name)
        text = resumed_text(found.parent, found.checkpoint, changed)
        echo(f"resumes {found.parent.id}: {text}")
        if spec is not None:
            return [changed]
        before = relaunch_spec(state, found.parent)
        old_devices = devices_in_all(found.parent.plan) if found.parent.plan is not None else 1
        new_devices = devices_of(changed, self.request or changed.gpus, old_devices)
        notes = changes_on_resume(before, changed, (old_devices, new_devices))
        return [msgspec.structs.replace(changed, warnings=(*changed.warnings, *notes))]

    def _is_path(self, state: StateDirectory, path: Path, has_preset: bool) -> bool:
        """Whether a checkpoint is named by its path, rather than a run that has one.

        A folder may be called as a run is: without a preset only a run can be meant.
        """
        if not path.exists() or (has_preset and (path.is_file() or "/" in self.resume)):
            return path.exists()
        try:
            find_run(state, self.resume)
        except FresnelError:
            return True
        return False

    def _named(self, state: StateDirectory, overrides: list[str], name: str) -> RunSpec | None:
        """The spec of the preset or run that is named besides; None where none is."""
        if self.preset is not None:
            specs = resolve_runs(self.preset, overrides, name)
            if len(specs) > 1:
                raise WrongInput(f"--resume: `{self.preset}` starts several runs", "resume one")
            return specs[0]
        if self.again is not None:
            return relaunch_spec(state, find_run(state, self.again))
        if self.has_command:
            raise WrongInput("--resume goes with a preset or a run, not with a command after --")
        return None
