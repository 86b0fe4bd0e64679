"""Means over an epoch of what is reported by steps: metrics of their own, named after those."""

from collections.abc import Callable, Collection, Iterable, Mapping

_PREFIX = "epoch/"
_MOST = 1000
"""A program that invents a new name on every line must not fill the memory."""


class StepNames:
    """Which metrics are reported by steps: what epochs report of these are means."""

    def __init__(self, stepped: Iterable[str] = (), by_epoch: Iterable[str] = ()) -> None:
        self.stepped = set(stepped)
        self.by_epoch = set(by_epoch)
        """Reported by epochs, and so far not by steps."""

    def name_of(self, name: str, of_epoch: bool | None) -> str:
        """What a value that is reported for an epoch, a step, or at the end is called."""
        if of_epoch and name in self.stepped:
            return _PREFIX + name
        return name

    def take(self, name: str, of_epoch: bool | None) -> bool:
        """Note who reports a metric; True where all that came before of it were means.

        A summary at the end is neither a step nor an epoch: None.
        """
        is_known = name in self.stepped or name in self.by_epoch
        if of_epoch is None or (len(self.stepped) + len(self.by_epoch) >= _MOST and not is_known):
            return False
        if of_epoch:
            if name not in self.stepped:
                self.by_epoch.add(name)
            return False
        self.stepped.add(name)
        were_means = name in self.by_epoch
        self.by_epoch.discard(name)
        return were_means


def mean_name(name: str) -> str:
    """What the means over epochs of a metric are called."""
    return _PREFIX + name


def news_of_summary(
    values: Mapping[str, float], last: Callable[[str], float | None]
) -> dict[str, float]:
    """What a summary says that is not the last value of a metric, or of its means, once more.

    `last` gives a metric's last value so far, None where it has none.
    """
    return {
        name: value
        for name, value in values.items()
        if not any(
            known is not None and (known == value or (known != known and value != value))
            for known in (last(name), last(mean_name(name)))
        )
    }


def step_metric(name: str, names: Collection[str]) -> str | None:
    """The metric by steps of which `name` is the mean over epochs; None where it is none of any."""
    if name.startswith(_PREFIX):
        base = name.removeprefix(_PREFIX)
        return base if base in names else None
    if name.endswith("_epoch"):
        # Lightning's names, where a metric is logged by steps and by epochs.
        base = name.removesuffix("_epoch") + "_step"
        return base if base in names else None
    return None
