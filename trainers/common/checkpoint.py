"""Checkpoints that are either whole or absent, and that a run can go on from to the bit."""

from __future__ import annotations

import os
import pickle
import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainers.common.settings import SettingsError

CHECKPOINT_NAME = re.compile(r"epoch_(\d+)(?:_step_(\d+))?\.pt")


def save_checkpoint(path: Path, content: dict[str, Any]) -> int:
    """Write content to path so that the file is whole or absent, whatever happens; return its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The rename itself lies in the folder, and a folder has to be synced like a file.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path.stat().st_size


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what save_checkpoint wrote, on the CPU, without running code from the file.

    Raises SettingsError where there is no such file or it is not a checkpoint.
    """
    if not path.is_file():
        raise SettingsError(f"--resume: there is no file {path}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError) as problem:
        reason = str(problem).strip().splitlines() or [type(problem).__name__]
        raise SettingsError(f"--resume: {path} cannot be read as a checkpoint ({reason[0]})") from problem
    if not isinstance(content, dict):
        raise SettingsError(f"--resume: {path} is not a checkpoint of this trainer")
    return content


def checkpoint_name(finished_epochs: int, step: int) -> str:
    """Return `epoch_0002.pt` after two epochs, and `epoch_0003_step_000007.pt` seven steps into the third."""
    if step == 0:
        return f"epoch_{finished_epochs:04d}.pt"
    return f"epoch_{finished_epochs + 1:04d}_step_{step:06d}.pt"


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint in folder that was written last, or None where there is none."""
    found = [path for path in folder.glob("epoch_*.pt") if CHECKPOINT_NAME.fullmatch(path.name)]
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def compare_settings(saved: Mapping[str, Any], wanted: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Raise SettingsError naming every setting among names that differs between a checkpoint and this run."""
    differing = [
        f"{name} is {saved.get(name)!r} there and {wanted[name]!r} here"
        for name in names
        if saved.get(name) != wanted[name]
    ]
    if differing:
        raise SettingsError(f"--resume: {why}: {'; '.join(differing)}")


def random_state() -> dict[str, Any]:
    """Return the state of Python's, NumPy's and PyTorch's generators in types that weights_only loads."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.array(keys, dtype=np.int64)), position, has_gauss, cached),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Put the generators back into a state that random_state returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
