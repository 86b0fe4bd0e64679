"""What the sampler asks of a way to read GPUs."""

from typing import Protocol

from runners.model.gpus import GpuSnapshot


class Backend(Protocol):
    """A way to read GPUs: its name, its driver's version, and what is wrong with it as a whole."""

    name: str
    driver: str | None
    problem: str | None

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """Read every GPU at `now` (unix seconds); may block. Sets `problem`, raises nothing."""
        ...


class NoDriver(Exception):
    """This backend has nothing to read here: its driver is not installed, or it sees no card."""


class DriverTrouble(Exception):
    """A driver (`loaded` by the kernel, or not) that does not work; the text says what to do."""

    def __init__(self, text: str, loaded: bool = True) -> None:
        super().__init__(text)
        self.loaded = loaded


class Absent:
    """A host without readable GPUs; `problem` is None where it simply has none."""

    name = "none"
    driver: str | None = None

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """No snapshots."""
        return ()
