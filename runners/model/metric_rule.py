"""The part of a spec that says where a run's metrics are read from."""

import re
import warnings
from typing import Annotated, ClassVar, Literal

import msgspec

from runners.model.spelling import key, one_or_more

MetricReader = Literal[
    "pcdiff",
    "voxelization",
    "cascade",
    "fresnel",
    "huggingface",
    "lightning",
    "keras",
    "boosting",
    "baselines3",
    "fastai",
    "yolo",
    "stylegan",
    "nerfstudio",
    "columns",
    "optuna",
    "wandb",
    "json",
    "tqdm",
    "pairs",
    "none",
]


class BestMetric(msgspec.Struct, frozen=True, omit_defaults=True):
    """By which metric a run is judged, and whether more of it is better; None as its name says."""

    short: ClassVar = "metric"

    metric: Annotated[str, key("Its name, as `fresnel-tui metrics` shows it.", min_length=1)]
    higher: Annotated[
        bool | None, key("Whether more of it is better. Default: as its name says.")
    ] = None


class MetricPattern(msgspec.Struct, frozen=True, omit_defaults=True):
    """A regular expression for lines of output."""

    short: ClassVar = "line"

    line: Annotated[
        str,
        key(
            "Searched in each line. Named groups are metrics, or step, steps, epoch, epochs, "
            "batch; (?P<name>...) with (?P<value>...) is a metric that the line names."
        ),
    ]
    offset: Annotated[
        dict[str, float], key("Added to a group, e.g. {step: 1} for steps from 0.")
    ] = {}

    def compiled(self) -> re.Pattern[str]:
        """The expression; raises re.error, OverflowError or RecursionError for what is none."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `[[]` is a bracket, and meant so
            return re.compile(self.line)


class MetricRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where metrics are read from besides events; without readers, one is chosen by the output."""

    short: ClassVar = "readers"

    readers: Annotated[
        tuple[MetricReader, ...], one_or_more, key("Built-in readers of output.")
    ] = ()
    patterns: Annotated[
        tuple[MetricPattern, ...],
        key("Regular expressions with named groups; tried before the readers."),
    ] = ()
    offset: Annotated[
        dict[str, float], key("Added to what readers find, e.g. {epoch: 1} for epochs from 0.")
    ] = {}
    rename: Annotated[dict[str, str], key("Other names for metrics, e.g. {l: loss}.")] = {}
    higher: Annotated[
        tuple[str, ...], key("Metrics of which more is better, where the name does not say.")
    ] = msgspec.field(default=(), name="higher_is_better")
    tensorboard: Annotated[
        tuple[str, ...],
        one_or_more,
        key("Folders or files of TensorBoard events; glob patterns."),
    ] = ()
