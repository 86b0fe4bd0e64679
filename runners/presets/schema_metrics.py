"""The keys of a preset that say how metrics are read from output."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runners.model.spec import MetricReader


class PatternKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A regular expression for lines of output."""

    line: Annotated[
        str,
        Meta(
            description="Searched in each line. Named groups are metrics, or step, steps, "
            "epoch, epochs, batch; "
            "(?P<name>...) with (?P<value>...) is a metric that the line names."
        ),
    ]
    offset: Annotated[
        dict[str, float], Meta(description="Added to a group, e.g. {step: 1} for steps from 0.")
    ] = {}


class MetricKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where metrics are read from, for programs that write no events."""

    readers: Annotated[
        MetricReader | list[MetricReader], Meta(description="Built-in readers of output.")
    ] = []
    patterns: Annotated[
        list[str | PatternKeys],
        Meta(description="Regular expressions with named groups; tried before the readers."),
    ] = []
    offset: Annotated[
        dict[str, float],
        Meta(description="Added to what readers find, e.g. {epoch: 1} for epochs from 0."),
    ] = {}
    rename: Annotated[
        dict[str, str], Meta(description="Other names for metrics, e.g. {l: loss}.")
    ] = {}
    higher_is_better: Annotated[
        list[str], Meta(description="Metrics of which more is better, where the name does not say.")
    ] = []
    tensorboard: Annotated[
        str | list[str], Meta(description="Folders or files of TensorBoard events; glob patterns.")
    ] = []
