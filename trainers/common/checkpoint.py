"""Checkpoints that are either whole or absent, and that a run can go on from to the bit."""

from __future__ import annotations

import errno
import pickle
import platform
import re
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainers.common.errors import SettingsError
from trainers.common.files import check_writable, name_also, remove_drafts, write_whole
from trainers.common.randomness import random_state as random_state
from trainers.common.randomness import restore_random_state as restore_random_state
from trainers.common.ranks import Ranks, from_leader, gather_from_ranks
from trainers.common.settings_parser import plain, read_settings_file, write_settings

CHECKPOINT_NAME = re.compile(r"epoch_(\d+)(?:_step_(\d+))?\.pt")
SETTINGS_NAME = "settings.json"
LAST, BEST = "last.pt", "best.pt"


def save_checkpoint(path: Path, content: Mapping[str, Any]) -> int:
    """Write content to path so that it is whole or absent, whatever happens; return its bytes.

    Tensors are written as a CPU's: programs that name no device could read them on that GPU alone.
    """
    return write_whole(path, lambda file: torch.save(on_cpu(content), file))


def on_cpu(value: Any) -> Any:
    """Return a nested value with its tensors on the CPU; what lies there already is not copied."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, Mapping):
        moved = {name: on_cpu(item) for name, item in value.items()}
        return type(value)(moved) if isinstance(value, dict) else moved
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(on_cpu(item) for item in value)
    return [on_cpu(item) for item in value] if isinstance(value, list) else value


def load_checkpoint(path: Path, allowed: Sequence[Any] = ()) -> dict[str, Any]:
    """Return what save_checkpoint wrote, on the CPU, without running code from the file.

    `allowed`: classes that others' files name beside PyTorch's. Raises SettingsError where there
    is no such file or it is not a checkpoint.
    """
    if not path.is_file():
        raise SettingsError(f"there is no file {path}")
    try:
        with torch.serialization.safe_globals(list(allowed)):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as problem:  # of any kind where a number in it is damaged
        raise SettingsError(f"{path} cannot be read as a checkpoint ({why(problem)})") from problem
    if not isinstance(content, dict):
        raise SettingsError(f"{path} is not a checkpoint of this trainer")
    if "written_by" in content:
        _check_sums(path)
    return content


def _check_sums(path: Path) -> None:
    """Raise SettingsError where a file is damaged inside, at which PyTorch does not look."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise SettingsError(
                    f"{path} cannot be read as a checkpoint (it is damaged: {damaged} in it does"
                    " not fit its checksum)"
                )


def why(problem: Exception) -> str:
    """Return why PyTorch did not read a file, without its advice to run the code in it."""
    text = str(problem).strip()
    if found := re.search(r"Unsupported global: GLOBAL (\S+)", text):
        return f"it holds {found[1]}, and code in a file is not run: only tensors and plain types"
    seek_failed = isinstance(problem, OSError) and problem.errno == errno.EINVAL
    if "PytorchStreamReader" in text or isinstance(problem, EOFError) or seek_failed:
        return "it is damaged or cut short"
    if "weights_only" in text:
        return "PyTorch's torch.save did not write it"
    if not isinstance(problem, (RuntimeError, OSError, ValueError, pickle.UnpicklingError)):
        return "it is damaged"
    return (text.splitlines() or [type(problem).__name__])[0]


def checkpoint_name(finished_epochs: int, step: int) -> str:
    """Return `epoch_0002.pt` after two epochs, and `epoch_0003_step_000007.pt` seven steps on."""
    if step == 0:
        return f"epoch_{finished_epochs:04d}.pt"
    return f"epoch_{finished_epochs + 1:04d}_step_{step:06d}.pt"


def numbered_checkpoints(folder: Path) -> list[Path]:
    """Return the numbered checkpoints in folder, the one written first first."""
    found = [path for path in folder.glob("epoch_*.pt") if CHECKPOINT_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (modified(path), path.name))


def modified(path: Path) -> int:
    """Return when a file was written in nanoseconds, 0 where it is gone."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        # A run that goes on beside this one has let it go meanwhile.
        return 0


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


class CheckpointFolder:
    """One run's checkpoints: numbered ones of which the newest `keep` stay, last.pt and best.pt.

    `settings` are written beside the first. Raises SettingsError where the folder cannot be written
    or holds another trainer's checkpoints. Every rank makes one; only rank 0 writes.
    """

    def __init__(
        self, folder: Path, trainer: str, settings: Mapping[str, Any], ranks: Ranks, keep: int = 3
    ) -> None:
        self.folder = folder.absolute()
        self.trainer, self.settings, self.ranks, self.keep = trainer, plain(settings), ranks, keep
        self._described = False
        from_leader(ranks, self._prepare)

    def _prepare(self) -> None:
        before = read_settings_file(self.folder / SETTINGS_NAME)
        if before and before[0] != self.trainer:
            raise SettingsError(
                f"{self.folder} holds checkpoints of the trainer {before[0]}: choose another folder"
            )
        try:
            remove_drafts(self.folder)
            check_writable(self.folder)
        except OSError as problem:
            raise SettingsError(f"{self.folder} cannot be written: {problem.strerror}") from problem

    def save(
        self,
        state: Mapping[str, Any],
        *,
        epoch: int,
        step: int,
        step_in_epoch: int = 0,
        best: bool = False,
        name: str = "",
    ) -> tuple[Path, int] | None:
        """Write a checkpoint after `epoch` whole epochs and `step` steps; every rank calls this.

        `state` holds tensors and plain types. Returns path and bytes on rank 0, else None. With
        `best`, best.pt is written instead of a numbered one, with `name` a file of that name, which
        no rule deletes. An OSError (a full disk) passes.
        """
        check_loadable(state)
        random_states = gather_from_ranks(random_state())
        if not self.ranks.leads:
            return None
        written_by = {
            "trainer": self.trainer,
            "epoch": epoch,
            "step": step,
            "step_in_epoch": step_in_epoch,
            "world_size": self.ranks.world,
            "device": self.ranks.device.type,
            "versions": versions(),
            "time": time.time(),
        }
        content = {
            **state,
            "random": random_states,
            "settings": self.settings,
            "written_by": written_by,
        }
        if not self._described:
            # Not before: a run that is refused leaves those of the run whose folder it would share.
            write_settings(self.folder / SETTINGS_NAME, self.trainer, self.settings)
            self._described = True
        own_name = BEST if best else name
        path = self.folder / (own_name or checkpoint_name(epoch, step_in_epoch))
        size = save_checkpoint(path, content)
        if not own_name:
            name_also(path, self.folder / LAST)
            self._let_go()
        return path, size

    def _let_go(self) -> None:
        if self.keep:
            for path in numbered_checkpoints(self.folder)[: -self.keep]:
                path.unlink(missing_ok=True)


def check_loadable(state: Mapping[str, Any]) -> None:
    """Raise TypeError naming what weights_only would refuse: no tensor and no plain type."""
    strange = list(_strange(state, ""))
    if strange:
        raise TypeError(f"a checkpoint cannot hold {', '.join(strange[:5])}")


def _strange(value: Any, where: str) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _strange(item, f"{where}.{name}" if where else str(name))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _strange(item, f"{where}[{place}]")
    elif not isinstance(
        value, (torch.Tensor, str, int, float, bool, type(None), bytes)
    ) or isinstance(value, np.generic):
        yield f"{where} ({type(value).__name__})"
