"""What tests do on the login node of a cluster."""

import shlex
from pathlib import Path

from runners.state.layout import RunDirectory
from tests.process.conftest import COMMAND, CommandLine, end_everything
from tests.slurm.lab import SlurmLab
from tests.support import REPOSITORY, eventually


class Cluster:
    """A cluster, and the command line of its login node."""

    def __init__(self, lab: SlurmLab, line: CommandLine) -> None:
        self.lab = lab
        self.line = line

    def submit(self, script: str, *options: str) -> str:
        """Submit a script in which `fresnel-tui` is the command; its job's id."""
        command = f"PYTHONPATH={shlex.quote(str(REPOSITORY))} {shlex.join(COMMAND)}"
        return self.lab.submit(
            f"cd {shlex.quote(str(self.line.folder))}\n{script.replace('fresnel-tui', command)}",
            *options,
        )

    def run(self) -> RunDirectory:
        """The only run there is, once it is there."""

        def only() -> Path | None:
            runs = self.line.state.runs
            return next(iter(runs.iterdir()), None) if runs.is_dir() else None

        return self.line.state.run(eventually(only, what="a run").name)

    def close(self) -> None:
        """End what is left of its runs."""
        for child in self.line.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        end_everything(self.line.state)
