"""The checkpoint a run resumes from: opened by the run's interpreter, compared with newer ones."""

import re
from collections.abc import Mapping
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from runners.host.checkpoint_files import proof
from runners.host.files import absence, expanded, is_folder, is_there, size_of
from runners.model.parameters import leaf_of
from runners.model.spec import RunSpec
from runners.verify.checkpoint_tool import CheckpointToolError, ask_checkpoint_tool
from runners.verify.facts import CheckpointFacts

_PATIENCE_S = 120.0
MOST_BYTES = 4 << 30
"""Larger files are only checked for being whole: opening one takes its size in memory."""
_NAMES = ("resume", "resume_from", "checkpoint", "ckpt", "model", "init_from", "load", "pretrained")
_CHOSEN_LATER = ("auto", "auto-or-new", "latest", "last", "true", "none")
_SUFFIXES = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".tar", ".h5", ".pkl"})
_OPTIMIZER = re.compile(r"optim|sched|scaler|rng|random", re.IGNORECASE)


def named_checkpoint(spec: RunSpec, folder: Path) -> Path | None:
    """The file the run is told to resume from; None when it is told none, or finds it itself."""
    if spec.resumed_from:
        return Path(spec.resumed_from)
    named = spec.resume.parameter if spec.resume is not None else ""
    for parameter in spec.parameters:
        value = parameter.value
        if parameter.name != named and leaf_of(parameter.name) not in _NAMES:
            continue
        if not isinstance(value, str) or not value or value.lower() in _CHOSEN_LATER:
            continue
        # One of a list of models is a name, not a file.
        if parameter.choices or "${" in value:
            continue
        path = folder / expanded(value)
        if parameter.name == named or path.suffix in _SUFFIXES or is_there(path):
            return path
    return None


def checkpoint_facts(
    path: Path, interpreter: str | None, environment: Mapping[str, str], written: Path | None
) -> CheckpointFacts:
    """Open `path` in `interpreter`; `written` is the newest checkpoint of the same preset."""
    if why := absence(path):
        return CheckpointFacts(str(path), problem=f"{path}: {why}")
    try:
        whole = proof(str(path))
    except OSError as error:
        return CheckpointFacts(str(path), problem=f"{path}: {error.strerror}")
    if whole is False:
        return CheckpointFacts(str(path), problem=f"{path}: incomplete, its end is missing")
    if is_folder(path):
        return CheckpointFacts(
            str(path), unseen="a folder: it looks complete, nothing more is known"
        )
    size = size_of(path)
    if interpreter is None or size > MOST_BYTES:
        why = (
            "no Python of the run is known"
            if interpreter is None
            else "too large to be opened here"
        )
        return CheckpointFacts(str(path), size, unseen=f"{why}; its end is where it should be")
    found = _inspect(interpreter, path, environment)
    if isinstance(found, str):
        return CheckpointFacts(str(path), size, problem=found)
    current: dict[str, tuple[int, ...]] = {}
    if written is not None and written != path and size_of(written) <= MOST_BYTES:
        other = _inspect(interpreter, written, environment)
        current = {} if isinstance(other, str) else shapes_of(other)
    steps = found.get("step", {}).items()
    return CheckpointFacts(
        str(path),
        size,
        tuple(found.get("devices", {})),
        tuple(found.get("wrappers", ())),
        {name: value for name, value in steps if isinstance(value, (int, float))},
        shapes_of(found),
        current,
        str(written) if current else "",
    )


def shapes_of(found: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes by key, without the optimizer's."""
    return {
        tensor["key"]: tuple(tensor["shape"])
        for tensor in found.get("keys", ())
        if not _OPTIMIZER.search(tensor["key"].partition(".")[0])
    }


def _inspect(interpreter: str, path: Path, environment: Mapping[str, str]) -> dict[str, Any] | str:
    """What the checkpoint tool says of a file, or in words why it cannot be used."""
    request = {"do": "inspect", "paths": [str(path)]}
    try:
        return ask_checkpoint_tool(interpreter, request, environment, _PATIENCE_S)[0]
    except TimeoutExpired:
        return f"{path}: not opened within {_PATIENCE_S:g} s"
    except OSError as error:
        return f"{interpreter}: {error.strerror}"
    except CheckpointToolError as error:
        return error.message if error.answered else f"{path}: {error.message[:200]}"
