"""Trained weights as safetensors: tensors and a description, which no reader has to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from trainers.common.errors import SettingsError
from trainers.common.files import write_whole
from trainers.common.settings_parser import plain

SUFFIX = ".safetensors"
DESCRIPTION = "description"
"""The key of the file's metadata under which the description lies, as JSON."""


def write_weights(path: Path, weights: Mapping[str, Tensor], description: Any = None) -> int:
    """Write tensors of any device and a description of plain types, whole or not at all.

    Returns its bytes. `path` ends in .safetensors. The format's metadata are texts alone
    (https://huggingface.co/docs/safetensors), so the description is one of JSON.
    """
    # A copy of its own each: the format refuses tensors that share memory.
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in weights.items()
    }
    metadata = {"format": "pt", DESCRIPTION: json.dumps(plain(description), sort_keys=True)}
    return write_whole(path, lambda file: file.write(save(tensors, metadata)))


def read_weights(path: Path, flag: str = "--checkpoint") -> tuple[dict[str, Tensor], Any]:
    """Return a file's tensors on the CPU, and its description or None.

    Raises SettingsError naming `flag` where there is no such file or it is damaged.
    """
    if not path.is_file():
        raise SettingsError(f"{flag}: there is no file {path}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text = (file.metadata() or {}).get(DESCRIPTION)
        return weights, None if text is None else json.loads(text)
    except (SafetensorError, OSError, ValueError) as problem:
        raise SettingsError(
            f"{flag}: {path} cannot be read as safetensors ({problem})"
        ) from problem


def check_trained(network: nn.Module, path: Path) -> None:
    """Raise SettingsError where any of a network's weights, read from a file, is not finite."""
    for name, tensor in network.state_dict().items():
        if not bool(tensor.isfinite().all()):
            raise SettingsError(
                f"{path}: its weights {name} are not finite, as of a training that has diverged:"
                " take an earlier checkpoint"
            )
