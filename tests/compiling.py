"""Importing this makes numba ready to compile and to load what it compiled, and PyTorch its own
compiler, without which no optimiser steps: a second that every program would pay in its turn.
"""

import contextlib

with contextlib.suppress(ImportError):
    import torch._dynamo  # noqa: F401
with contextlib.suppress(ImportError):
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
