"""How many files each process of a run may hold open: as many as the hard limit allows."""

import resource

_MOST = 1 << 20
"""Where the hard limit is none: some programs go through every number up to it."""


def open_files_of_runs() -> int:
    """The limit that a run's processes get here; below 0 for none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    return soft if soft == resource.RLIM_INFINITY else max(soft, raised)


def raise_open_files() -> None:
    """Give this process and its children that limit, if they may have it.

    DataLoader workers need thousands, and the default is often 1024.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_of_runs(), hard))
    except (OSError, ValueError):
        return
