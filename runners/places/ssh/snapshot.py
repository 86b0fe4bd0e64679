"""A machine at one moment, as its agent tells it: small, and the same for every version of ours."""

from typing import Any

import msgspec

from runners.places.ssh.difference import apply


class RemoteRun(msgspec.Struct, frozen=True):
    """One run there. Moments in unix seconds by the clock there, money in dollars as decimal text;
    unknown is None.
    """

    id: str
    name: str
    preset: str
    state: str
    live: bool
    reason: str = ""
    gpus: tuple[int, ...] = ()
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    fraction: float | None = None
    eta_s: float | None = None
    epoch: int | None = None
    epochs: int | None = None
    headline: str | None = None
    value: float | None = None
    trend: tuple[float, ...] = ()
    cost: str | None = None
    checkpoint: str | None = None
    alert: str | None = None
    asks: str | None = None
    remark: str = ""
    """Why it is where it is, in one line; `urgent` when that asks for somebody."""
    urgent: bool = False
    best: float | None = None
    group: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False
    phase: str = ""
    exit_code: int | None = None


class RemoteGpu(msgspec.Struct, frozen=True):
    """One GPU there: percent, bytes, degrees, watts; the runs that hold it."""

    index: int
    name: str
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    simulated: bool = False
    error: str | None = None
    runs: tuple[str, ...] = ()


class RemoteSnapshot(msgspec.Struct, frozen=True):
    """Everything that is shown of a machine. Money in dollars as decimal text."""

    host: str = ""
    runs: dict[str, RemoteRun] = {}
    order: tuple[str, ...] = ()
    """The runs' ids, newest first."""
    gpus: dict[str, RemoteGpu] = {}
    gpu_problem: str | None = None
    cpu_percent: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    disk_free: int | None = None
    per_hour: str | None = None
    spent: str | None = None
    idle: str | None = None
    budget_left: str | None = None
    guard: str = ""
    problem: str = ""
    hidden: int = 0
    """Older runs that are not told."""

    @property
    def newest_first(self) -> list[RemoteRun]:
        """The runs, newest first."""
        return [self.runs[run_id] for run_id in self.order if run_id in self.runs]


class SnapshotReader:
    """Puts snapshots together from what an agent sends."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}

    def take(self, fields: dict[str, Any]) -> RemoteSnapshot | None:
        """The snapshot after this message; None when it brought none. ValueError when it means
        something else by it than we do.
        """
        if "snapshot" in fields:
            self._tree = fields["snapshot"]
        elif "changes" in fields:
            self._tree = apply(self._tree, fields["changes"])
        else:
            return None
        try:
            return msgspec.convert(self._tree, RemoteSnapshot)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
