"""What a run that Slurm is asked for gets where its preset says nothing: settings, a time limit."""

import msgspec

from runners.model.spec import RunSpec
from runners.presets.reading.user_settings import read_settings
from runners.slurm.options import keys_of, ladder_s

SLURM_DECIDES = "Slurm decides when it starts"
_DEFAULT_LIMIT = 1.3
"""A time limit that is not given is this much of the estimate, and what the stop ladder takes."""


def with_defaults(spec: RunSpec) -> RunSpec:
    """`spec` with what the user's settings say of the cluster, where it says nothing."""
    keys = keys_of(spec)
    if keys is None:
        return spec
    place = msgspec.structs.replace(spec.place, slurm=keys.over(read_settings().slurm))
    return msgspec.structs.replace(spec, place=place)


def with_time_limit(spec: RunSpec, estimate_s: float | None) -> tuple[RunSpec, str]:
    """`spec` with a time limit for its job where it has none, and what to say of that."""
    keys = keys_of(spec)
    if keys is None or keys.time is not None or not estimate_s:
        return spec, ""
    # The ladder begins before the limit: what it takes is no time to train in.
    keys = msgspec.structs.replace(keys, time=estimate_s * _DEFAULT_LIMIT + ladder_s(spec))
    place = msgspec.structs.replace(spec.place, slurm=keys)
    text = (
        f"time limit of the job: {_DEFAULT_LIMIT:g} × its estimate, and its stop ladder; "
        "place.slurm.time sets it"
    )
    return msgspec.structs.replace(spec, place=place), text
