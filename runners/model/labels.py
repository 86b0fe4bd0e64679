"""What people add to a run: another name, tags, a note, a star."""

import msgspec

from runners.model.metric_rule import BestMetric


class Labels(msgspec.Struct, frozen=True):
    """labels.json: `name` replaces the one of the launch unless it is empty."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False
    best: BestMetric | None = None
    """What the run is judged by, in place of what its preset says."""


NO_LABELS = Labels()
