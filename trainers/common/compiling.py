"""torch.compile, off unless it is asked for, and refused where it cannot work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec

import torch
from torch import nn

from trainers.common.errors import SettingsError

COMPILERS = ("c++", "g++", "clang++")
VARIANTS = 64
"""Kinds of batches, sizes and ways to use them that code is made for: three or four a network."""


def why_not_compiled(device: torch.device) -> str:
    """Return why torch.compile makes no code for a device here, or nothing.

    On a GPU its code is Triton's, on a CPU C++ (PyTorch's documentation of torch.compile).
    """
    if device.type == "cuda":
        return "" if find_spec("triton") else "it needs the package triton on a GPU"
    named = os.environ.get("CXX")
    if not any(map(shutil.which, (named,) if named else COMPILERS)):
        return f"it needs a C++ compiler on a CPU, and {named or 'none'} is found (CXX names one)"
    return ""


def compile_network(
    asked: bool,
    network: nn.Module,
    device: torch.device,
    graphs: bool = False,
    parts: int = 1,
    regions: Iterable[nn.Module] = (),
) -> None:
    """Have a network compiled at its first step, in place: names in checkpoints stay the same.

    `graphs`: and replayed as CUDA graphs. `parts`: batches whose gradients make one step. Where
    there are `regions` of it, each is compiled by itself: code is made once for all that are alike.
    CUDA graphs are of the whole network all the same. Raises SettingsError where what is asked for
    cannot work.
    """
    if not (asked or graphs):
        return
    if graphs and device.type != "cuda":
        raise SettingsError("--cuda_graphs: only a GPU has them; --compile works on a CPU, too")
    if graphs and parts > 1:
        # A replay does not add to the gradients of the one before, which lie in the graphs' memory
        # (pytorch/pytorch#169545): they are wrong, or the run ends.
        raise SettingsError(
            f"--cuda_graphs: gradients of {parts} accumulated batches would be wrong; accumulate"
            " none, or use --compile"
        )
    if reason := why_not_compiled(device):
        raise SettingsError(f"--{'cuda_graphs' if graphs else 'compile'}: {reason}; leave it away")
    import torch._dynamo  # a second, which only compiling and steps of optimisers take

    # Counted for all networks of a class together, such as a cascade's stages; beyond it (8, if
    # nobody says so) they would be computed as if they were not compiled.
    torch._dynamo.config.recompile_limit = VARIANTS
    if graphs:
        network.compile(mode="reduce-overhead")
        return
    for part in list(regions) or [network]:
        part.compile()
