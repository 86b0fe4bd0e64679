"""One call of NVML: its answer, or None for whatever this driver or GPU does not have."""

from typing import Any

import pynvml

from runners.gpus.backends.nvml_text import LOST

_MISSING = (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
_SENTINELS = (2**64 - 1, 2**32 - 1)
"""What NVML writes where it has no value, in its 64-bit and 32-bit fields."""


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
