"""How a GPU computes: TF32, cuDNN's choice of kernels, and where its 3-D convolutions fail."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

WRONG_CUDNN = (90800, 91100)
"""From, below: these answer wrongly for conv3d in bf16 (pytorch/pytorch#163539)."""
ENOUGH_CUDNN = 91500
"""From here on PyTorch 2.9 uses cuDNN for conv3d in half precision; below it takes 4 times as long
and 17 times the memory (pytorch/pytorch#166643, #166122)."""


def add_arithmetic_flags(parser: argparse.ArgumentParser, benchmark: bool, tf32: bool) -> None:
    """Add what decides how a GPU computes.

    `benchmark` where every step has the same shapes; `tf32` but where products nearly cancel.
    """
    add, switch = parser.add_argument_group("GPU").add_argument, argparse.BooleanOptionalAction
    # fmt: off
    add("--tf32", action=switch, default=tf32,
        help="multiply float32 as TF32 on GPUs that have it: 8 times as fast, 10 bits of mantissa")
    add("--cudnn_benchmark", action=switch, default=benchmark,
        help="let cuDNN measure which convolution is fastest for each shape")
    # fmt: on


def set_arithmetic(tf32: bool, benchmark: bool, deterministic: bool = False) -> None:
    """Decide how products and convolutions are computed from now on; it acts on GPUs alone."""
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = benchmark and not deterministic
    torch.backends.cudnn.deterministic = deterministic


@contextmanager
def exact_products() -> Iterator[None]:
    """Compute float32 in full inside: variances are small differences of large numbers."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def describe_arithmetic() -> str:
    """Return how a GPU computes now, as a sentence."""
    full = torch.get_float32_matmul_precision() == "highest"
    if torch.backends.cudnn.deterministic:
        kernels = "deterministic ones of cuDNN"
    elif torch.backends.cudnn.benchmark:
        kernels = "the fastest that cuDNN measures for each shape"
    else:
        kernels = "as cuDNN chooses"
    products = "float32 products in full" if full else "float32 products as TF32"
    return f"{products}; convolutions: {kernels}"


def conv3d_trouble(precision: str, release: str, cudnn: int | None) -> str:
    """Return what is wrong with conv3d in half precision on a PyTorch and cuDNN, or nothing.

    `release` is such as 2.9.1+cu128, `cudnn` such as 91002 for 9.10.2, None without one.
    """
    if precision not in ("bf16", "fp16") or cudnn is None:
        return ""
    found = f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"
    if precision == "bf16" and WRONG_CUDNN[0] <= cudnn < WRONG_CUDNN[1]:
        return f"{found} computes 3-D convolutions in bf16 wrongly; 9.11 and newer do not"
    if re.match(r"2\.9(\.|$)", release) and cudnn < ENOUGH_CUDNN:
        return (
            f"PyTorch {release} with {found} does 3-D convolutions in {precision} without cuDNN, in"
            " 17 times the memory: pip install 'nvidia-cudnn-cu12>=9.15'"
        )
    return ""


def conv3d_trouble_here(precision: str, device: torch.device) -> str:
    """Return what conv3d_trouble says of this PyTorch on a device; nothing but CUDA has any."""
    if device.type != "cuda" or torch.version.hip is not None:
        return ""
    return conv3d_trouble(precision, str(torch.__version__), torch.backends.cudnn.version())
