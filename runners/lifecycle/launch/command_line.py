"""The command line of a run: its program found, its launcher's words, what is put before it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.host.files import expanded, is_file
from runners.host.helpers import command
from runners.lifecycle.launch.executables import find_program
from runners.lifecycle.launch.interpreter import replaced_python
from runners.lifecycle.launch.placeholder_values import FilledTexts, LaunchInputs
from runners.model.errors import WrongInput
from runners.model.launchers import CommandParts
from runners.model.wrappers import STDBUF

SRUN = ("srun", "--overlap", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--export=ALL")
"""One task on each node, with all that the job has there; what starts ranks binds them itself."""


def spell_argv(
    inputs: LaunchInputs,
    texts: FilledTexts,
    folder: Path,
    environment: Mapping[str, str],
    config: Sequence[str],
) -> list[str]:
    """The argv that is started in `folder`; the words of `config` come before the arguments.

    Raises WrongInput for a script or program that does not exist.
    """
    spec, traits = inputs.spec, inputs.traits
    program, interpreter = [*texts.program], ""
    if not program:
        raise WrongInput(f"{spec.name or spec.preset}: there is no command to run", "name one")
    if traits.runs_python:
        named = replaced_python(texts.interpreter, texts.environment)
        interpreter = _interpreter(named, folder, environment)
        if not spec.module:
            program = [_script(texts.program[0], folder)]
    else:
        named = replaced_python(program[0], texts.environment)
        program[0] = find_program(named, folder, environment)
    parts = CommandParts(
        interpreter,
        program,
        [*config, *texts.arguments],
        texts.launcher_arguments,
        inputs.processes,
        texts.port,
        bool(inputs.allocation.gpus),
        spec.node,
    )
    argv = wrapped(traits.spell(parts), spec.terminal, traits.runs_python)
    if spec.node is None or not spec.node.by_slurm:
        return argv
    count = str(spec.node.count)
    srun = [*SRUN, f"--nodes={count}", f"--ntasks={count}"]
    return command("across-nodes", count, *srun, *command("node-task", spec.stop.target, *argv))


def wrapped(argv: list[str], terminal: bool, runs_python: bool) -> list[str]:
    """`argv` behind what lets its output be seen at once; Python is told by its environment."""
    if terminal:
        # There the C library flushes at every line already.
        return command("pty", *argv)
    return argv if runs_python else unbuffer(argv)


def unbuffer(argv: list[str]) -> list[str]:
    """`argv` behind stdbuf, where that exists and helps."""
    name = Path(argv[0]).name
    if name.startswith(("python", "stdbuf")) or shutil.which(STDBUF[0]) is None:
        return argv
    return [*STDBUF, *argv]


def _script(name: str, folder: Path) -> str:
    script = folder / expanded(name)
    if not is_file(script):
        raise WrongInput(f"script: no file {script}", f"the working directory is {folder}")
    return str(script)


def _interpreter(name: str, folder: Path, environment: Mapping[str, str]) -> str:
    # Debian and others have no `python` without a venv.
    if name == "python" and shutil.which("python", path=environment.get("PATH")) is None:
        name = "python3"
    return find_program(name, folder, environment)
