"""The labels of runs on disk: `labels.json` in a run's folder.

A stamp changes whenever any of them does.
"""

import os
from collections.abc import Callable

import msgspec

from runners.host.files import replace, stamp_of
from runners.host.locks import locked
from runners.model.run import NO_LABELS, Labels, Run
from runners.state.decoding import json_decoder, read
from runners.state.layout import RunDirectory, StateDirectory

json_decoder(Labels)


def read_labels(directory: RunDirectory) -> Labels:
    """The run's labels; none where the file is missing or damaged."""
    # A path as text, because a Path for each of thousands of runs takes longer than the read.
    return read(f"{directory.path}/labels.json", Labels) or NO_LABELS


def change_labels(directory: RunDirectory, change: Callable[[Labels], Labels]) -> Labels:
    """Replace the run's labels by what `change` makes of them, one writer at a time.

    Raises OSError when the folder is gone or the file cannot be written.
    """
    lock = directory.home.labels_lock
    with locked(lock):
        labels = change(read_labels(directory))
        if labels == NO_LABELS:
            directory.labels.unlink(missing_ok=True)
        else:
            replace(directory.labels, msgspec.json.encode(labels))
        # After the write: whoever sees the new stamp also finds the new labels.
        os.utime(lock)
    return labels


def labels_stamp(state: StateDirectory) -> int:
    """A number that changes with every change of any run's labels.

    Whoever keeps runs in memory compares it, and reads their labels again when it differs.
    """
    return stamp_of(state.labels_lock)


def with_labels(run: Run, labels: Labels) -> Run:
    """Return `run` under the name of its labels, or that of its launch."""
    name = labels.name or (run.plan.spec.name if run.plan else "")
    return msgspec.structs.replace(run, name=name, labels=labels)
