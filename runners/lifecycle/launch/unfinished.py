"""A launch of several runs is all or nothing: one that was killed halfway is completed or undone.

`launching/TOKEN` holds the ids of its runs, from before the first of them is written until all are
marked live. The marks come last, so the first of them decides.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from runners.host.files import closing, read_plain, replace
from runners.host.locks import acquire
from runners.lifecycle.supervisor.kept_environment import forget_all
from runners.model.run_ids import is_run_id
from runners.state.layout import StateDirectory


@contextmanager
def all_or_none(state: StateDirectory, ids: Sequence[str]) -> Iterator[None]:
    """Note that these runs are being written, and mark them live together at the end of the block.

    Under the allocation lock. Where that raises, what was written of them is removed.
    """
    state.launching.mkdir(mode=0o700, exist_ok=True)
    note = state.launching / f"{os.getpid()}-{os.urandom(4).hex()}"
    replace(note, "\n".join(ids).encode())
    try:
        yield
        _mark(state, ids)
    except BaseException:
        undo(state, ids)
        note.unlink()
        raise
    note.unlink()


def settle_unfinished(state: StateDirectory) -> None:
    """Complete the launches that were killed while they marked their runs; undo those before.

    Nothing while somebody launches, perhaps in a process that is suspended: the guard asks for this
    too, and must not wait for that.
    """
    lock = acquire(state.allocation_lock)
    if lock is None:
        return
    # Whoever launches holds it: what is noted now was left by a process that is dead.
    with closing(lock):
        for note in state.launching.iterdir():
            try:
                ids = [name for name in read_plain(note).decode().split() if is_run_id(name)]
            except (OSError, ValueError):
                continue
            if any(state.run(run_id).was_launched() for run_id in ids):
                _mark(state, ids)
            else:
                undo(state, ids)
            note.unlink(missing_ok=True)


def _mark(state: StateDirectory, ids: Sequence[str]) -> None:
    for run_id in ids:
        # One that has its record was taken up before, and may have ended since.
        if not state.run(run_id).state.exists():
            state.live_marker(run_id).touch(mode=0o600)


def undo(state: StateDirectory, ids: Sequence[str]) -> None:
    """Remove what was written of runs that are not to be."""
    import shutil  # a launch that was killed is rare, and every command imports this

    for run_id in ids:
        # First: with one left, whoever comes after a kill here would complete the launch.
        state.live_marker(run_id).unlink(missing_ok=True)
    for run_id in ids:
        directory = state.run(run_id)
        forget_all(directory)
        with suppress(FileNotFoundError):
            shutil.rmtree(directory.path)
