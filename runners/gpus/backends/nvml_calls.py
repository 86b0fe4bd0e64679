"""One call of NVML: its answer, or None for whatever this driver or GPU does not have.

NVML's codes are put in words that say what to do; source: the constants of nvml.h.
"""

from typing import Any

import pynvml

_MISSING = (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
_SENTINELS = (2**64 - 1, 2**32 - 1)
"""What NVML writes where it has no value, in its 64-bit and 32-bit fields."""
_STILL = "running jobs continue"

_PROBLEMS = {
    4: "no permission: check access to /dev/nvidia*, or ask for the GPUs in the container; "
    f"{_STILL}",
    8: f"a GPU lacks power: check its external power cables; {_STILL}",
    9: "the driver is not loaded: load the nvidia module or reboot",
    10: f"the driver timed out: look for Xid lines in dmesg; {_STILL}",
    11: "the driver gets no interrupts: look at dmesg and reboot",
    15: "a GPU is lost: it fell off the bus; look for Xid 79 in dmesg and reboot",
    17: "the operating system refused the GPU: look at dmesg; in a container, check its "
    "cgroup device rules",
    18: f"driver/library version mismatch: reboot or reload the driver; {_STILL}",
    999: "unknown error: in a container, restart it (its devices may have been reset from "
    "outside); "
    f"else look at dmesg; {_STILL}",
}

NO_GPU = (
    "NVML: the driver sees no GPU: start the container with its GPUs (--gpus all), or look "
    "for the GPU in lspci and "
    "dmesg; runs use the CPU"
)

LOST = {
    15: "GPU is lost: it fell off the bus; look for Xid 79 in dmesg and reboot",
    16: "GPU needs a reset: end its processes and run nvidia-smi --gpu-reset, or reboot",
    28: "GPU is lost: the driver no longer finds it; reboot",
}
"""Codes after which one GPU gives no more readings, while the others do."""

_THROTTLE = {
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal (software)",
    0x040: "thermal (hardware)",
    0x080: "power brake",
    0x100: "display clocks",
}


class LostGpu(Exception):
    """One GPU answers no more."""


def ask(names: str | tuple[str, ...], *arguments: Any, **options: Any) -> Any:
    """The answer of the first of these NVML functions that exists, or None.

    Raises LostGpu for a lost GPU.
    """
    for name in (names,) if isinstance(names, str) else names:
        try:
            return getattr(pynvml, name)(*arguments, **options)
        except pynvml.NVMLError as error:
            if error.value in LOST:
                raise LostGpu(LOST[error.value]) from None
            if error.value not in _MISSING:
                return None
        except (
            AttributeError,
            ValueError,
        ):  # a function this pynvml lacks; a name that is no UTF-8
            continue
    return None


def number(value: int | None) -> int | None:
    """A value that NVML gave, or None for its marks of an unknown one."""
    return None if value is None or value in _SENTINELS else value


def problem_text(code: int, name: str) -> str:
    """One line for a person about NVML return code `code`, which the driver calls `name`."""
    return f"NVML: {_PROBLEMS.get(code, f'{name} (code {code}): look at dmesg; {_STILL}')}"


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Why clocks are held down, by the bits of NVML's clock event reasons; being idle is none."""
    return tuple(word for bit, word in _THROTTLE.items() if mask & bit)
