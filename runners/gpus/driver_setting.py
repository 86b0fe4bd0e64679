"""What `$FRESNEL_GPUS` asks for. Cheap: front ends read it, and open no driver for it."""

import os
import re
from typing import Literal, get_args

import msgspec

from runners.model.errors import WrongInput
from runners.model.late_pattern import late_pattern

VARIABLE = "FRESNEL_GPUS"
MOST_SIMULATED = 64

_SIMULATED = late_pattern(r"sim:(\d{1,3})x(\S.*)", re.IGNORECASE)


Driver = Literal["nvml", "amd"]
"""What reads real GPUs."""
DRIVERS: tuple[Driver, ...] = get_args(Driver)
"""In the order in which a machine is searched for them."""


class Choice(msgspec.Struct, frozen=True):
    """Which backend is wanted; `count` and `model` only for simulated GPUs."""

    kind: Driver | Literal["auto", "none", "simulated"]
    count: int = 0
    model: str = ""


def setting() -> str:
    """The text of `$FRESNEL_GPUS`; `auto` when unset or empty."""
    return os.environ.get(VARIABLE, "").strip() or "auto"


def parse(text: str) -> Choice:
    """Read a value of `$FRESNEL_GPUS`; raises WrongInput that names the allowed forms."""
    wanted = text.lower()
    match wanted:
        case "auto" | "none" as kind:
            return Choice(kind)
    for driver in DRIVERS:
        if wanted == driver:
            return Choice(driver)
    found = _SIMULATED.fullmatch(text)
    if found and 1 <= int(found[1]) <= MOST_SIMULATED:
        return Choice("simulated", int(found[1]), found[2].strip())
    raise WrongInput(
        f"{VARIABLE}={text!r} is not a choice of GPUs.",
        f"Write sim:8xMI300X (1 to {MOST_SIMULATED} simulated GPUs of a model), "
        f"{', '.join(DRIVERS)}, none, or leave it unset.",
    )
