"""What several rooms of tests need: waiting for something to become true, and making plans and
runs to look at.
"""

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

from runners.cost.accounting import Account
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.host.clock import Moment
from runners.model.plan import AssignedGpu, LaunchPlan, Origin
from runners.model.run import Run, RunRecord
from runners.model.spec import Price, RunSpec
from runners.model.states import State

REPOSITORY = Path(__file__).resolve().parents[1]
CEILING_S = 90.0
"""Longer than a machine that stalls for seconds needs; never waited for where nothing is broken."""
SLEEPS_IN = "nanosleep" if sys.version_info >= (3, 11) else "poll_schedule"
"""Part of the kernel's name for where `time.sleep` waits: before Python 3.11 it is a `select`."""

_PLAN_FIELDS = LaunchPlan.__struct_fields__

T = TypeVar("T")


def eventually(condition: Callable[[], T], ceiling_s: float = CEILING_S, what: str = "") -> T:
    """The first true result of `condition`, polled; fails after `ceiling_s` seconds."""
    deadline = time.monotonic() + ceiling_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never saw {what or condition}; last: {found!r}"
        time.sleep(0.01)
    return found


def begun(words: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """A process whose command and surroundings can be read: `Popen` returns a moment before."""
    child = subprocess.Popen(words, **options)
    eventually(Path(f"/proc/{child.pid}/environ").read_bytes, what="its surroundings")
    return child


def free_port() -> int:
    """A loopback port that was free a moment ago, and none that the kernel gives to whoever wants
    any: other tests would have it before it is listened to.
    """
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Not by the chance that a test has seeded: other workers draw the same then.
    below = SystemRandom().sample(range(given // 2, given), 99)
    for port in [*below, 0]:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise AssertionError("no free port")


@contextmanager
def deaf_port() -> Iterator[int]:
    """A loopback port at which nobody listens, nor begins to."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


def stats_below(folder: Path) -> dict[Path, os.stat_result]:
    """A folder and all below it, as `lstat` sees it; what is gone meanwhile is left out."""
    found = {folder: folder.lstat()}
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            with suppress(FileNotFoundError):
                found[path] = path.lstat()
    return found


def files_below(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder and what is in it, links left out. Helpers that outlive a command
    may write there: what is gone meanwhile is left out too.
    """
    found = {}
    for path, status in stats_below(folder).items():
        with suppress(FileNotFoundError):
            if stat.S_ISREG(status.st_mode):
                found[path] = path.read_bytes()
    return found


def committed_files() -> list[Path]:
    """Every file of the project that is, or would be, committed; none where git does not know."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else []
    return [path for name in names if name and (path := REPOSITORY / name).is_file()]


def account_of(session: Session, now: Moment) -> Account:
    """A session's money by `now`, no run beside it."""
    return Statement([session], [], now).account(session)


def make_plan(run_id: str = "20261120-101500-demo-7f3a", **changes: Any) -> LaunchPlan:
    """A plan of a run on the CPU, created at second 1000 on host `here`.

    `changes` are of the plan, or of its spec.
    """
    fields: dict[str, Any] = {
        "run": run_id,
        "argv": ("true",),
        "environment": {},
        "environment_removed": (),
        "working_directory": "/",
        "directory": f"/nowhere/{run_id}",
        "gpus": (),
        "processes": 1,
        "port": None,
        "price": None,
        "origin": Origin("anna", "here", "boot-1", 1000.0),
    }
    planned = {name: changes.pop(name) for name in list(changes) if name in _PLAN_FIELDS}
    asked = {"preset": "demo", "name": "demo", "launcher": "command", **changes}
    return LaunchPlan(spec=RunSpec(**asked), **(fields | planned))


def make_run(
    state: State = State.RUNNING,
    price: Price | None = None,
    gpus: int = 0,
    started: float | None = 1000.0,
    ended: float | None = None,
    **changes: Any,
) -> Run:
    """A run in `state` with `gpus` GPUs and a price."""
    assigned = tuple(AssignedGpu(i, f"GPU-{i}", "H100", i) for i in range(gpus))
    fields: dict[str, Any] = {
        "id": "20261120-101500-demo-7f3a",
        "preset": "demo",
        "name": "demo",
        "state": state,
        "reason": "",
        "directory": "/nowhere",
        "created": 1000.0,
        "plan": make_plan(price=price, gpus=assigned),
        "record": RunRecord(state, started=started, ended=ended),
    }
    return Run(**(fields | changes))
