"""The newest checkpoint that is really there: never claimed, always seen on disk."""

from collections.abc import Iterable

from runners.host.newest_file import newest
from runners.model.run import Checkpoint


def newest_checkpoint(patterns: Iterable[str]) -> Checkpoint | None:
    """The newest file or folder matching any glob pattern; files still being written (*.tmp …) do
    not count.
    """
    found = newest(patterns)
    return None if found is None else Checkpoint(*found)
