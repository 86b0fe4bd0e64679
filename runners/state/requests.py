"""Requests to launch that come over a line: asked again by the same name, nothing starts twice.

`requests/NAME` in the state folder holds the ids of the runs that a request made, one a line. An id
is written before its run's plan, and counts once the run was marked live: a launch that died in
between has made no run.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from runners.host.files import read_text
from runners.host.locks import locked
from runners.model.errors import DeniedError, WrongInput
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

REQUEST = "FRESNEL_REQUEST"
"""The variable that names a request, for the command that carries it out and nobody below it."""

_NAME = re.compile(r"[0-9a-zA-Z-]{8,64}")
_WITHDRAWN = ".withdrawn"
_KEPT_S = 30 * 86400.0


class OpenRequest(NamedTuple):
    """A request while it is carried out, and the runs that it made when it was asked before."""

    name: str
    made: list[Run]


@contextmanager
def open_request(state: StateDirectory) -> Iterator[OpenRequest]:
    """The request that this process carries out, alone; without a name when it has none.

    WrongInput for a name that is none, DeniedError for one that was withdrawn.
    """
    name = os.environ.pop(REQUEST, "")  # what is launched must not take it for its own
    if not name:
        yield OpenRequest("", [])
        return
    _check_name(name)
    state.requests.mkdir(mode=0o700, parents=True, exist_ok=True)
    _forget_old(state)
    # Asked again while the first is still being carried out: that first.
    with locked(state.requests / f"{name}.lock"):
        if (state.requests / f"{name}{_WITHDRAWN}").exists():
            raise DeniedError("this launch was withdrawn: it starts nothing here any more")
        yield OpenRequest(name, _made(state, name))


def withdraw(state: StateDirectory, name: str) -> list[str]:
    """See to it that a request makes no run from now on; the ids of those that it has made.

    Waits until nobody carries it out. WrongInput for a name that is none.
    """
    _check_name(name)
    state.requests.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(state.requests / f"{name}.lock"):
        made = [run.id for run in _made(state, name)]
        if not made:
            (state.requests / f"{name}{_WITHDRAWN}").touch(mode=0o600)
    return made


def note_run(state: StateDirectory, request: str, run_id: str) -> None:
    """Write down that `request` makes this run; OSError when the disk refuses."""
    if request:
        with (state.requests / request).open("a") as file:
            file.write(f"{run_id}\n")
            file.flush()
            os.fsync(file.fileno())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise WrongInput(f"${REQUEST}: `{name}` is no name for a request")


def _made(state: StateDirectory, name: str) -> list[Run]:
    ids = read_text(state.requests / name).split()
    return [read_run(state, run_id) for run_id in ids if state.run(run_id).was_launched()]


def _forget_old(state: StateDirectory) -> None:
    before = time.time() - _KEPT_S
    for path in state.requests.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
