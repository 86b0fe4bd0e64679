"""The files that one attempt leaves in its run's folder, as the supervisor uses them.

Standard library only: the supervisor imports it.
"""

import time

from runners.state.layout import RunDirectory


def leader_since(run: RunDirectory) -> float:
    """When the program wrote its pid (unix seconds), for a record without a start.

    The supervisor that started it was killed before it could write that down.
    """
    try:
        return run.leader.stat().st_mtime
    except OSError:
        return time.time()


def set_aside(run: RunDirectory, number: int) -> None:
    """Make room for the attempt after `number`, whose output is kept. Raises OSError."""
    # Traces of a program that has ended: with them, the next attempt would look finished.
    for path in (run.exit, run.leader):
        path.unlink(missing_ok=True)
    earlier = run.path / f"output.{number}.log"
    # Done already by a supervisor that was killed: what is there now belongs to the next attempt.
    if run.output.exists() and not earlier.exists():
        run.output.rename(earlier)
