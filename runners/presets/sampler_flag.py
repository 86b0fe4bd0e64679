"""`--sampler`: a sweep whose values one of optuna's samplers suggests."""

from collections.abc import Collection
from importlib.util import find_spec

from runners.model.errors import WrongInput
from runners.model.sampler_search import SearchAxis

SAMPLERS: dict[str, tuple[str, ...]] = {
    "tpe": ("optuna",),
    "gp": ("optuna", "scipy", "torch"),
    "cmaes": ("optuna", "cmaes"),
    "qmc": ("optuna", "scipy"),
}
"""The samplers by name, and the packages that each of them imports."""
RANDOM = "random"
"""The sampler that needs no results: all values are drawn at the launch."""
_CMAES_OF_ONE = 5
"""The version of optuna whose CMA-ES is known to take a single number; 4.1's draws at random."""
_SENSE = {"max": True, "min": False}


def parse_sampler(text: str) -> tuple[str, str, bool | None]:
    """Name, metric and whether more is better (None: not given) of `NAME[:METRIC[:max|min]]`.

    WrongInput for another name.
    """
    name, _, rest = text.partition(":")
    metric, colon, sense = rest.rpartition(":")
    if not colon or sense not in _SENSE:
        metric, sense = rest, ""
    if name not in (*SAMPLERS, RANDOM):
        raise WrongInput(
            f"--sampler {text}: no sampler `{name}`",
            f"one of {', '.join((RANDOM, *SAMPLERS))}, then :METRIC to optimize (the loss)",
        )
    return name, metric, _SENSE.get(sense)


def require_sampler(name: str, axes: Collection[SearchAxis]) -> None:
    """Raise WrongInput for a sampler that is not installed or cannot choose what varies."""
    missing = [package for package in SAMPLERS[name] if find_spec(package) is None]
    if missing:
        raise WrongInput(
            f"--sampler {name} needs {' and '.join(missing)}, which this Python does not have",
            "install the extra: pip install 'fresnel-tui[optuna]'"
            if "optuna" in missing
            else f"pip install {' '.join(missing)}",
        )
    if name != "cmaes":
        return
    ranges = sum(not axis.values for axis in axes)
    if not ranges:
        raise WrongInput(
            "--sampler cmaes chooses numbers from ranges, and none varies",
            "give a range, lr=1e-5..1e-3:log; or --sampler tpe, which chooses from values too",
        )
    from importlib.metadata import version  # 20 ms, which a launch without it does not pay

    if ranges == 1 and int(version("optuna").partition(".")[0]) < _CMAES_OF_ONE:
        raise WrongInput(
            f"--sampler cmaes of optuna {version('optuna')} needs two ranges or more",
            "--sampler tpe takes one; or pip install -U optuna",
        )


def drawn_at_random(name: str, axes: Collection[SearchAxis]) -> list[str]:
    """What is to be said of values that the sampler leaves to chance."""
    values = [axis.key for axis in axes if axis.values]
    if name != "cmaes" or not values:
        return []
    return [f"{', '.join(values)}: drawn at random, cmaes chooses only numbers from ranges"]
