"""Launching an old run again: its own spec as written, with the secrets that were not."""

import os

import msgspec

from runners.host.files import is_folder
from runners.lifecycle.launch.unmasking import with_secrets
from runners.lifecycle.supervisor.kept_environment import kept_environment
from runners.model.errors import NotFound
from runners.model.masked_plan import arrived
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.state.codec import read_spec
from runners.state.layout import StateDirectory

_HERE = "${working_directory}"


def relaunch_spec(state: StateDirectory, run: Run) -> RunSpec:
    """The RunSpec of `run`, alone (out of its group), waiting for nobody, in the folder it ran in.

    Secrets are never written down: they are taken from the memory of a run that waits or restarts,
    or read again from the preset's file and the environment. One that is nowhere stays masked until
    it is given; a launch refuses it. Raises NotFound when the run kept no spec.
    """
    directory = state.run(run.id)
    spec = read_spec(directory)
    if spec is None:
        raise NotFound(f"{run.id} has kept no spec", "launch its preset instead")
    if run.plan is not None and spec.working_directory in ("", _HERE):
        folder = run.plan.working_directory
        if is_folder(folder):
            # A `$` in a folder's name is no placeholder.
            folder = folder.replace("${", "$${")
            spec = msgspec.structs.replace(spec, working_directory=folder)
    spec = with_secrets(spec, arrived(kept_environment(directory) or {}), os.environ)
    return msgspec.structs.replace(spec, group="", parallel=None, search=None, swept={}, after=None)
