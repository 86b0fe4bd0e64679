# Written from tui/api.py and what it names by `make docs`.
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal

__all__ = ['DeniedError', 'FresnelError', 'NotFound', 'RunHandle', 'State', 'WrongInput', 'find', 'launch', 'runs', 'sweep']
Value = bool | int | float | str | Sequence[bool | int | float | str] | None
class ExitCode(IntEnum):
    """What a headless command's exit status means."""
    DONE = 0
    RUN_FAILED = 1
    WRONG_INPUT = 2
    NOT_FOUND = 3
    DENIED = 4
    INTERRUPTED = 130
class FresnelError(Exception):
    """One clear sentence for a person, a hint what to do next, and the exit code it leads to."""
    exit_code = ExitCode.RUN_FAILED
    def __init__(self, message: str, hint: str='') -> None:
        ...
    message: str
    hint: str
class WrongInput(FresnelError):
    """Something a person wrote cannot be used: a preset, a flag, a value."""
    exit_code = ExitCode.WRONG_INPUT
class NotFound(FresnelError):
    """A run, preset or file that was named does not exist."""
    exit_code = ExitCode.NOT_FOUND
class DeniedError(FresnelError):
    """What was asked is not possible here and now.

    Busy GPUs, runs of another host, folders that others may write.
    """
    exit_code = ExitCode.DENIED
class State(str, Enum):
    """The state of a run.

    `cancelled` means stopped before it ever started. `orphaned` and `lost` are derived from locks;
    `lost` is recorded only once an adopter has found it so. `unseen` has ended and left its output,
    but nobody saw its exit status; of a lost one there is no trace.
    """
    QUEUED = 'queued'
    STARTING = 'starting'
    RUNNING = 'running'
    STOPPING = 'stopping'
    DONE = 'done'
    FAILED = 'failed'
    STOPPED = 'stopped'
    CANCELLED = 'cancelled'
    ORPHANED = 'orphaned'
    UNSEEN = 'unseen'
    LOST = 'lost'
    @property
    def sign(self) -> str:
        """Its sign in tables."""
    @property
    def style(self) -> str:
        """The colour in which it is drawn."""
    @property
    def is_live(self) -> bool:
        """Whether a run in this state may still change."""
    @property
    def has_failed(self) -> bool:
        """Whether a run ended in it without success, and nobody asked for that."""
    @property
    def has_program(self) -> bool:
        """Whether its program runs, and nobody has asked it to stop."""
    @property
    def is_unstarted(self) -> bool:
        """Whether the program of its attempt is still to be started."""
    @property
    def holds_gpus(self) -> bool:
        """Whether a run in it may have its GPUs, and costs money for that."""
class RunHandle:
    """One run; every attribute but `id` is read when it is asked for."""
    def __init__(self, run_id: str) -> None:
        ...
    id: str
    @property
    def state(self) -> State:
        """Where it stands: queued, running, done, failed, stopped, cancelled …"""
    @property
    def reason(self) -> str:
        """Why it is where it is, in words; empty where there is nothing to say."""
    @property
    def is_live(self) -> bool:
        """True while it may still change."""
    @property
    def exit_code(self) -> int | None:
        """Its program's exit status; None while it runs or when unknown."""
    @property
    def name(self) -> str:
        """What it is called."""
    @property
    def tags(self) -> tuple[str, ...]:
        """What it was tagged with."""
    @property
    def directory(self) -> Path:
        """Its folder: output.log, events.jsonl, plan.json."""
    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric; NaN and infinity are among them as floats."""
    @property
    def best(self) -> dict[str, float]:
        """The best value of each metric where more or less is better; of a live run so far."""
    @property
    def fraction(self) -> float | None:
        """How far it is, from 0 to 1; None when unknown."""
    @property
    def cost_usd(self) -> float | None:
        """US dollars so far; None when no price is known."""
    def to_json(self) -> dict[str, Any]:
        """Everything, as `fresnel-tui status RUN --json` prints it."""
    def output(self) -> str:
        """All that its program printed; what is not UTF-8 is replaced."""
    def wait(self, timeout_s: float | None=None) -> State:
        """Wait until it has ended and return how; TimeoutError after `timeout_s` seconds."""
    def stop(self, force: bool=False) -> None:
        """Ask it to stop, step by step; with `force` by SIGKILL at once."""
    def rename(self, name: str) -> None:
        """Give it another name."""
    def tag(self, *tags: str) -> None:
        """Add tags, one word each."""
    def note(self, text: str) -> None:
        """Write a note, in place of the older one."""
    def delete(self) -> None:
        """Move it to the trash (`fresnel-tui undelete`); DeniedError while it is live or needed."""
def launch(preset: str | Path='', set: Mapping[str, Value] | None=None, *, command: str | Sequence[str]=(), again: 'str | RunHandle'='', name: str='', gpus: int | Literal['all'] | None=None, gpu_ids: str | None=None, priority: int | None=None, after: 'str | RunHandle | None'=None, price: str | None=None, queue: bool=True) -> RunHandle:
    """Launch a preset, a `command`, or a run `again` with `set` changed, and return the run.

    `{KEY}` in a command stands for a value of `set`. It waits in the queue while its GPUs are busy;
    DeniedError instead where `queue` is false.
    """
def sweep(preset: str | Path='', grid: Mapping[str, Iterable[bool | int | float | str]] | None=None, set: Mapping[str, Value] | None=None, *, command: str | Sequence[str]=(), parallel: int | None=None, name: str='', gpus: int | Literal['all'] | None=None, priority: int | None=None, price: str | None=None) -> list[RunHandle]:
    """Launch a preset or a command with every combination of `grid` as a group.

    `{KEY}` in a command stands for a value. At most `parallel` run at once.
    """
def runs(*names: str, live: bool=False) -> list[RunHandle]:
    """All runs, oldest first; those with `names` (ids, names, groups), or those that are `live`."""
def find(name: str) -> RunHandle:
    """The run with this id, beginning of an id, or name (its newest), or `last`; else NotFound."""
