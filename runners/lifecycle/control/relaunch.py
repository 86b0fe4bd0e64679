"""Launching an old run again: its own spec as written, with the secrets that were not."""

from pathlib import Path

import msgspec

from runners.lifecycle.launch.words import MASK
from runners.model.errors import FresnelError, NotFound, WrongInput
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.presets.catalogue import resolve_preset
from runners.state.codec import read_spec
from runners.state.layout import StateDirectory

_HERE = "${working_directory}"


def relaunch_spec(state: StateDirectory, run: Run) -> RunSpec:
    """The RunSpec of `run`, alone (out of its group), waiting for nobody, in the folder it ran in.

    Secrets are never written down: they are read again from the preset's file. Raises NotFound when
    the run kept no spec, WrongInput when a secret cannot be found.
    """
    spec = read_spec(state.run(run.id))
    if spec is None:
        raise NotFound(f"{run.id} has kept no spec", "launch its preset instead")
    if run.plan is not None and spec.working_directory in ("", _HERE):
        folder = run.plan.working_directory
        if Path(folder).is_dir():
            # A `$` in a folder's name is no placeholder.
            folder = folder.replace("${", "$${")
            spec = msgspec.structs.replace(spec, working_directory=folder)
    return msgspec.structs.replace(
        spec, environment=_unmasked(spec), group="", parallel=None, search=None, after=None
    )


def _unmasked(spec: RunSpec) -> dict[str, str]:
    secret = [name for name, value in spec.environment.items() if value == MASK]
    if not secret:
        return spec.environment
    try:
        known = resolve_preset(spec.source).environment if Path(spec.source).is_file() else {}
    except FresnelError:
        known = {}
    missing = [name for name in secret if name not in known]
    if missing:
        raise WrongInput(
            f"{', '.join(missing)} was a secret of this run, which is never written down",
            f"its preset {spec.source or spec.preset} does not have it any more; launch with "
            "--set environment.…",
        )
    return {
        name: known.get(name, value) if value == MASK else value
        for name, value in spec.environment.items()
    }
