"""One line of events.jsonl: what a trainer reports about itself.

Every line is a JSON object with `time` (unix seconds) and `type`; fields that
do not apply are left out.
"""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True):
    """Any event; `type` is start, metrics, epoch, checkpoint, image or summary, others are ignored.

    `epoch` counts from 1, `step` counts finished steps over the whole run; `epochs`
    and `steps` are the totals.
    """

    time: float
    type: str
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    seconds: float | None = None
    # None stands for a number that JSON cannot hold: NaN and infinity.
    values: dict[str, float | int | None] = {}
    settings: dict[str, Any] = {}
    path: str | None = None
    bytes: int | None = None
    caption: str | None = None
    stage: str | None = None
    """Which part of a training that has several, such as `stage 2/3`."""
