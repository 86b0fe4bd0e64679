"""Fetches that are repeated until the runs have ended, each by a process of its own.

It needs no terminal. What is known of one lies in `remote/.fetches/NAME.json`; it ends when that
file is removed.
"""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.host import helpers
from runners.host.alone import run_alone
from runners.host.files import is_gone, replace
from runners.host.locks import is_held
from runners.model.errors import NotFound
from runners.model.run_ids import by_names
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_POLL_S = 0.5
_ENDS_WITHIN_S = 30.0


class KeptFetch(msgspec.Struct, frozen=True):
    """One of them: `runs` of `host`, all that are not fetched if none, into the folder `to`.

    `every_s` is the pause in seconds, `last` when it was done the last time (unix seconds, 0 before
    the first), `problem` why that failed, `ended` when all runs had ended and were here, else 0.
    """

    name: str
    host: str
    runs: tuple[str, ...]
    to: str
    checkpoints: str
    every_s: float
    created: float
    last: float = 0.0
    problem: str = ""
    ended: float = 0.0


class _Fetched(msgspec.Struct, frozen=True):
    """What `fetch --json` says of a run, as far as it matters here."""

    live: bool


class _Failed(msgspec.Struct, frozen=True):
    message: str = ""


class _Failure(msgspec.Struct, frozen=True):
    error: _Failed = _Failed()


def keep_fetching(state: StateDirectory, fetch: KeptFetch) -> None:
    """Have it repeated from now on; one of the same name is replaced."""
    _folder(state).mkdir(mode=0o700, parents=True, exist_ok=True)
    _save(state, fetch)
    _start(state, fetch)


def list_fetches(state: StateDirectory) -> list[KeptFetch]:
    """All of them, the oldest first."""
    found = (read(path, KeptFetch) for path in _folder(state).glob("*.json"))
    return sorted((each for each in found if each is not None), key=lambda each: each.created)


def find_fetch(state: StateDirectory, name: str) -> KeptFetch:
    """The one of this name, or the newest of a run that is called so; NotFound."""
    for fetch in reversed(list_fetches(state)):
        if name in (fetch.name, *fetch.runs, *map(by_names, fetch.runs)):
            return fetch
    known = ", ".join(fetch.name for fetch in list_fetches(state)) or "none"
    raise NotFound(f"no repeated fetch `{name}`", f"there are: {known}")


def free_name(state: StateDirectory, base: str, runs: Sequence[str], to: str) -> str:
    """A name for a fetch of these runs into `to`, in the place of none that brings more."""
    kept = {
        fetch.name
        for fetch in list_fetches(state)
        if not fetch.ended and (fetch.to != to or not set(fetch.runs) <= set(runs))
    }
    names = (f"{base}-{number}" if number > 1 else base for number in itertools.count(1))
    return next(name for name in names if name not in kept)


def forget_fetch(state: StateDirectory, fetch: KeptFetch) -> None:
    """Repeat it no more; what was fetched stays."""
    _file(state, fetch.name).unlink(missing_ok=True)


def resume_fetches(state: StateDirectory) -> None:
    """Start those whose process was lost, with its machine or its login."""
    for fetch in list_fetches(state):
        _start(state, fetch)


def lock_of(state: StateDirectory, name: str) -> Path:
    """What the process of one of them holds."""
    return _folder(state) / f"{name}.lock"


def _start(state: StateDirectory, fetch: KeptFetch) -> None:
    if not fetch.ended and not is_held(lock_of(state, fetch.name)):
        helpers.spawn("keep-fetching", state.root, fetch.name)


def _repeat(state: StateDirectory, name: str) -> None:
    """Fetch, wait, and fetch again, until the runs have ended or nobody wants it any more."""
    while not is_gone(state.root):
        fetch = read(_file(state, name), KeptFetch)
        if fetch is None or fetch.ended:
            return
        problem, is_over = _fetch(state, fetch)
        now, asked = time.time(), read(_file(state, name), KeptFetch)
        if asked is None:
            return
        if asked.created != fetch.created:
            continue  # it was replaced meanwhile
        done = msgspec.structs.replace(
            fetch, last=now, problem=problem, ended=now if is_over else 0.0
        )
        _save(state, done)
        until = time.monotonic() + fetch.every_s
        while time.monotonic() < until and not is_over and _file(state, name).exists():
            time.sleep(min(_POLL_S, max(0.0, until - time.monotonic())))


def _fetch(state: StateDirectory, fetch: KeptFetch) -> tuple[str, bool]:
    """Fetch once: what went wrong, and whether there is nothing more to come."""
    which = fetch.runs or ("--all",)
    command = helpers.this_program(
        *("fetch", *which, "--host", fetch.host, "--to", fetch.to),
        *("--checkpoints", fetch.checkpoints, "--json"),
    )
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FRESNEL_STATE_DIR": str(state.root)},
    )
    while True:
        try:
            output, errors = process.communicate(timeout=_POLL_S)
            break
        except subprocess.TimeoutExpired:
            if not _file(state, fetch.name).exists():
                process.terminate()
    try:
        if process.returncode == 0:
            runs = msgspec.json.decode(output, type=list[_Fetched])
            return "", not any(run.live for run in runs)
        problem = msgspec.json.decode(output, type=_Failure).error.message
    except (ValueError, RecursionError):
        problem = ""
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return problem or last[-300:] or f"exit code {process.returncode}", False


def _save(state: StateDirectory, fetch: KeptFetch) -> None:
    replace(_file(state, fetch.name), msgspec.json.encode(fetch))


def _file(state: StateDirectory, name: str) -> Path:
    return _folder(state) / f"{name}.json"


def _folder(state: StateDirectory) -> Path:
    return state.remote / ".fetches"


def main() -> None:
    """Detach, then repeat the fetch `argv[2]` of the state folder `argv[1]`, if nobody does."""
    state, name = StateDirectory(Path(sys.argv[1])), sys.argv[2]
    run_alone(lock_of(state, name), lambda: _repeat(state, name))
