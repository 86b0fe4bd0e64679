"""No GPU here, or none that can be read: an empty list, and the reason if there is one."""

from runners.model.gpus import GpuSnapshot


class Absent:
    """Reads nothing; `problem` is None on a host that simply has no GPU."""

    name = "none"
    driver: str | None = None

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """No snapshots."""
        return ()
