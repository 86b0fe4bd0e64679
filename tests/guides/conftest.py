"""A checkout as a guide describes it: its folders and names, made-up data, simulated GPUs."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine, end_everything
from tests.support import REPOSITORY
from tests.warm import TORCH

OURS = ("FRESNEL_", "CUDA_", "HIP_", "ROCR_")


class GuideCommands(CommandLine):
    """`fresnel-tui …` in a guide's checkout, on the GPUs that the guide has."""

    def __init__(self, folder: Path, gpus: str) -> None:
        super().__init__(folder)
        self.gpus = gpus
        self.state = StateDirectory(folder.parent / "state")

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """One state folder for all tests of a guide, whatever a test's own environment says."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        return {
            **kept,
            "PYTHONPATH": str(REPOSITORY),
            "XDG_CONFIG_HOME": str(self.folder.parent / "config"),
            "XDG_CACHE_HOME": str(self.folder.parent / "cache"),
            "FRESNEL_STATE_DIR": str(self.state.root),
            "FRESNEL_SAMPLER_LINGER_S": "2",
            "FRESNEL_GPUS": self.gpus,
            **more,
        }

    def program(self, script: str, *arguments: object) -> str:
        """Run one of the trainers' own programs in the checkout; what it printed."""
        done = TORCH.run(
            [sys.executable, str(REPOSITORY / "trainers" / script), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment({}),
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)


def checkout(factory: pytest.TempPathFactory, name: str, gpus: str) -> Iterator[GuideCommands]:
    """The commands in an empty checkout; at the end every run of it is over."""
    folder = factory.mktemp(name) / name
    folder.mkdir()
    commands = GuideCommands(folder, gpus)
    yield commands
    end_everything(commands.state)
