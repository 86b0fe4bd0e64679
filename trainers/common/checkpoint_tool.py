"""Opens checkpoint files for others: run by an interpreter that has PyTorch, answers in JSON.

`python checkpoint_tool.py REQUEST` with a JSON object: {"do": "inspect" | "remap" | "strip" |
"average", "paths": […], "device": "cpu", "output": ""}. Answers on stdout; exit 2 and {"error": …}
when a file cannot be used. Files are read with weights_only: code in them is never run.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # The folder of this file must not hide anybody's modules from PyTorch (it has an errors.py).
    sys.path.pop(0)

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_STATE_NAMES = ("model_state", "model_state_dict", "state_dict", "model", "net", "weights", "ema")
_NOT_WEIGHTS = re.compile(r"optim|sched|scaler|rng|random|lr_", re.IGNORECASE)
_STEPS = ("step", "global_step", "iteration", "iter", "it", "epoch", "epoch_it", "finished_epochs")
_MOST_KEYS = 10_000


class CheckpointProblem(Exception):
    """A file cannot be used; the message says which, why and what to do."""


class OpenedCheckpoint:
    """A file's content on the CPU, and where each storage was when it was saved."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.devices: dict[str, int] = {}
        self.locations: dict[int, str] = {}
        self.content = self._load()

    def _load(self) -> Any:
        import torch

        if not self.path.is_file():
            raise CheckpointProblem(f"{self.path}: no such file")
        try:
            return torch.load(self.path, map_location=self._note, weights_only=True)
        except MemoryError:
            raise
        except Exception as problem:
            raise CheckpointProblem(f"{self.path}: {_reason(problem)}") from problem

    def _note(self, storage: Any, location: str) -> Any:
        self.devices[location] = self.devices.get(location, 0) + storage.nbytes()
        if storage.nbytes():
            self.locations[storage.data_ptr()] = location
        return storage


def _reason(problem: Exception) -> str:
    text = str(problem)
    found = re.search(r"(?:GLOBAL|global) [`']?([\w.]+)", text)
    if "eights_only" in text or "Weights only" in text or "Unsupported" in text:
        what = f" ({found[1]})" if found else ""
        return (
            f"holds Python objects{what} that only running code could read: not opened. Save "
            "tensors and plain values, in the program that made it"
        )
    if isinstance(problem, TypeError) and "weights_only" in text:
        return "this PyTorch is too old to read files safely: use 1.13 or newer"
    first = text.strip().splitlines() or [type(problem).__name__]
    return f"not a readable checkpoint, or damaged ({first[0][:200]})"


def tensors(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor in nested mappings and lists, with its path in dots."""
    import torch

    if isinstance(content, torch.Tensor):
        yield name, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from tensors(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, (list, tuple)):
        for i, value in enumerate(content):
            yield from tensors(value, f"{name}.{i}" if name else str(i))


def states(content: Any, name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping from names to tensors, with its path; those of optimizers and the like not."""
    import torch

    if not isinstance(content, Mapping) or _NOT_WEIGHTS.search(name):
        return
    if any(isinstance(v, torch.Tensor) for v in content.values()) and all(
        isinstance(key, str) for key in content
    ):
        yield name, content
    for key, value in content.items():
        yield from states(value, f"{name}.{key}" if name else str(key))


def main_state(content: Any) -> tuple[str, Mapping[str, Any]]:
    """The model's own mapping: by a usual name, else the one with the most tensors."""
    found = dict(states(content))
    for name in _STATE_NAMES:
        if name in found:
            return name, found[name]
    if not found:
        raise CheckpointProblem("holds no mapping of names to tensors")
    name = max(found, key=lambda candidate: len(found[candidate]))
    return name, found[name]


def bare_names(names: list[str]) -> dict[str, str]:
    """Each name without wrappers: `module` only where all names beside it have it.

    Raises CheckpointProblem when two names would become one.
    """
    pieces = {name: name.split(".") for name in names}
    changed = True
    while changed:
        changed = False
        for depth in range(2):
            groups: dict[tuple[str, ...], list[str]] = {}
            for name, parts in pieces.items():
                groups.setdefault(tuple(parts[:depth]), []).append(name)
            for members in groups.values():
                if all(
                    len(pieces[m]) > depth + 1 and pieces[m][depth] == "module" for m in members
                ):
                    for member in members:
                        del pieces[member][depth]
                    changed = True
    bare = {
        name: ".".join(part for part in parts if part not in WRAPPERS[1:])
        for name, parts in pieces.items()
    }
    if len(set(bare.values())) < len(bare):
        raise CheckpointProblem("two keys would get the same name without their prefix")
    return bare


def inspect(path: Path) -> dict[str, Any]:
    """Describe one file: format, keys with shapes, step, devices, wrappers, who wrote it."""
    if path.suffix == ".safetensors":
        return _inspect_safetensors(path)
    checkpoint = OpenedCheckpoint(path)
    found = [
        {"key": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        for name, value in tensors(checkpoint.content)
    ]
    top = checkpoint.content if isinstance(checkpoint.content, Mapping) else {}
    plain = {
        str(key): value for key, value in top.items() if isinstance(value, (int, float, str, bool))
    }
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "format": "torch zip" if zipped else "torch legacy (before 1.6)",
        "written_by": writer_of(top),
        "top_level": [str(key) for key in top],
        "values": plain,
        "step": {name: plain[name] for name in _STEPS if name in plain},
        "devices": checkpoint.devices,
        "wrappers": wrappers_in([name for _, state in states(top) for name in state]),
        "tensors": len(found),
        "parameters": _parameters(top),
        "keys": found[:_MOST_KEYS],
    }


def _parameters(top: Mapping[str, Any]) -> int:
    import torch

    try:
        _, state = main_state(top)
    except CheckpointProblem:
        return 0
    return sum(value.numel() for value in state.values() if isinstance(value, torch.Tensor))


def wrappers_in(names: list[str]) -> list[str]:
    """The wrappers that stand in key names."""
    parts = {part for name in names for part in name.split(".")[:-1]}
    return [wrapper for wrapper in WRAPPERS if wrapper in parts]


def writer_of(top: Mapping[str, Any]) -> str:
    """Who wrote a checkpoint, judged by its keys; empty when nothing tells."""
    keys = {str(key) for key in top}
    if {"pytorch-lightning_version", "state_dict"} <= keys:
        return f"PyTorch Lightning {top['pytorch-lightning_version']}"
    if {"random", "settings"} <= keys or {"trainer", "settings"} <= keys:
        return "a trainer of fresnel-tui"
    if {"model_state", "optimizer_state"} <= keys:
        return "a program that saves model_state and optimizer_state"
    if any(re.search("optim", key) for key in keys):
        return "a training program (it holds an optimizer)"
    return ""


def _inspect_safetensors(path: Path) -> dict[str, Any]:
    """Format: 8 bytes little-endian length, then a JSON header (safetensors' own README)."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(100 << 20, path.stat().st_size):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        meta = header.pop("__metadata__", {})
        keys = [
            {"key": name, "shape": entry["shape"], "dtype": entry["dtype"]}
            for name, entry in header.items()
        ]
        ends = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise CheckpointProblem(f"{path}: not a readable safetensors file ({problem})") from problem
    if path.stat().st_size < 8 + length + ends:
        raise CheckpointProblem(f"{path}: damaged: shorter than its header says")
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "format": "safetensors",
        "written_by": str(meta.get("format", "")),
        "top_level": [],
        "values": meta,
        "step": {},
        "devices": {"none": ends},
        "wrappers": wrappers_in([entry["key"] for entry in keys]),
        "tensors": len(keys),
        "parameters": sum(_product(entry["shape"]) for entry in keys),
        "keys": keys[:_MOST_KEYS],
    }


def _product(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def remap(path: Path, device: str, output: str) -> dict[str, Any]:
    """Write a copy whose GPU tensors are on `device`; what was on the CPU stays there."""
    if re.fullmatch(r"cpu|(?:cuda|hip|xpu):\d+", device) is None:
        raise CheckpointProblem(f"--device {device}: cpu, or a GPU inside the run such as cuda:0")
    checkpoint = OpenedCheckpoint(path)
    if all(location in ("cpu", device) for location in checkpoint.devices):
        devices = " and ".join(checkpoint.devices) or "no device"
        raise CheckpointProblem(f"{path}: nothing to remap, its tensors are on {devices}")
    moved = {
        place: location if location == "cpu" else device
        for place, location in checkpoint.locations.items()
    }
    target = _target(path, output, "remapped")
    save(checkpoint.content, target, moved)
    return {"written": str(target), "from": checkpoint.devices, "to": device}


def strip(path: Path, output: str) -> dict[str, Any]:
    """Write a copy whose model keys have no wrappers."""
    checkpoint = OpenedCheckpoint(path)
    renamed = 0

    def bare(content: Any, name: str = "") -> Any:
        nonlocal renamed
        if not isinstance(content, Mapping):
            return content
        inner = {
            key: bare(value, f"{name}.{key}" if name else str(key))
            for key, value in content.items()
        }
        if any(place == name for place, _ in states(content, name)):
            names = bare_names([str(key) for key in inner])
            renamed += sum(before != after for before, after in names.items())
            return {names[str(key)]: value for key, value in inner.items()}
        return inner

    content = bare(checkpoint.content)
    if not renamed:
        raise CheckpointProblem(f"{path}: nothing to strip, no key has a wrapper's prefix")
    target = _target(path, output, "stripped")
    save(content, target, checkpoint.locations)
    return {"written": str(target), "renamed": renamed}


def average(paths: list[Path], output: str) -> dict[str, Any]:
    """Write the mean of the models' floating point tensors; others are the last file's.

    Optimizers and the like are left out: they belong to one of the models.
    """
    if len(paths) < 2:
        raise CheckpointProblem("average: name two checkpoints or more")
    sums: dict[str, Any] = {}
    for path in paths:
        name, state = main_state(OpenedCheckpoint(path).content)
        floats = {k: v for k, v in state.items() if _is_float(v)}
        if sums and {k: v.shape for k, v in sums.items()} != {
            k: v.shape for k, v in floats.items()
        }:
            raise CheckpointProblem(f"{path}: other keys or shapes than {paths[0]}")
        for key, value in floats.items():
            sums[key] = value.double() if key not in sums else sums[key] + value.double()
    content = OpenedCheckpoint(paths[-1]).content
    name, state = main_state(content)
    mean = dict(state)
    for key, total in sums.items():
        mean[key] = (total / len(paths)).to(state[key].dtype)
    dropped = [str(key) for key in content if name and _NOT_WEIGHTS.search(str(key))]
    whole = _replaced(content, name.split(".") if name else [], mean)
    kept = {key: value for key, value in whole.items() if str(key) not in dropped}
    target = _target(paths[-1], output, "averaged")
    save(kept, target, {})
    return {"written": str(target), "averaged": len(sums), "of": len(paths), "left_out": dropped}


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _replaced(content: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    return {
        k: _replaced(v, path[1:], value) if str(k) == path[0] else v for k, v in content.items()
    }


def _target(path: Path, output: str, word: str) -> Path:
    target = Path(output) if output else path.with_name(f"{path.stem}_{word}{path.suffix}")
    if target.exists() or target.is_symlink():
        raise CheckpointProblem(f"{target}: is there already; name another with --output")
    return target


def save(content: Any, target: Path, locations: Mapping[int, str]) -> None:
    """Write `content` whole or not at all; storages are tagged with their place in `locations`."""
    import torch

    def tag(storage: Any) -> str | None:
        return locations.get(storage.data_ptr()) if storage.nbytes() else None

    # A number below the CPU's own (10) asks here first: a GPU's tag without that GPU.
    torch.serialization.register_package(1, tag, lambda storage, location: None)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)


def answer(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Do what a request asks; raises CheckpointProblem."""
    paths = [Path(path) for path in request["paths"]]
    device, output = request.get("device", "cpu"), request.get("output", "")
    if output and len(paths) > 1 and request["do"] in ("remap", "strip"):
        raise CheckpointProblem("--output goes with one file")
    each: dict[str, Callable[[Path], dict[str, Any]]] = {
        "inspect": inspect,
        "remap": lambda path: remap(path, device, output),
        "strip": lambda path: strip(path, output),
    }
    if request["do"] == "average":
        return [average(paths, output)]
    return [each[request["do"]](path) for path in paths]


def main() -> int:
    """Answer the request in the first argument."""
    try:
        result: Any = answer(json.loads(sys.argv[1]))
    except CheckpointProblem as problem:
        result = {"error": str(problem)}
    except OSError as problem:
        result = {"error": f"{problem.filename or ''}: {problem.strerror or problem}"}
    except ImportError as problem:
        result = {"error": f"{sys.executable} has no PyTorch ({problem}): name another --python"}
    except MemoryError:
        result = {"error": "not enough memory to open it"}
    print(json.dumps(result, default=str))
    return 2 if isinstance(result, dict) else 0


if __name__ == "__main__":
    code = main()
    # All is answered: PyTorch need not be looked through for garbage, for 0.3 s of a processor.
    gc.freeze()
    sys.exit(code)
