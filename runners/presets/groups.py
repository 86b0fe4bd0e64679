"""A preset that launches several runs together, each with its own GPUs: all of them or none."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.presets.cross_checks import check_gpus
from runners.presets.load import load_preset
from runners.presets.preset_schema import Group, Member
from runners.presets.reading.diagnostics import Diagnostics
from runners.presets.reading.typed import decode


def load_group(
    path: Path,
    values: dict[str, Any],
    source: Diagnostics,
    find: Callable[[str], Path],
    overrides: Sequence[str] = (),
    name: str = "",
) -> list[RunSpec]:
    """The RunSpecs of the group in `values`, marked as one; overrides are `MEMBER.KEY=VALUE`."""
    with source.located():
        declared: Group = decode(values, Group, ())
    names = [member.name or member.preset for member in declared.runs]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise source.error(
            ("runs",), f"two runs are called {', '.join(sorted(doubled))}; give them names"
        )
    for override in overrides:
        if override.split("=")[0].split(".")[0] not in names:
            raise WrongInput(
                f"--set {override}: expected RUN.KEY=VALUE with RUN one of {', '.join(names)}"
            )
    group = f"{name or path.stem}-{os.urandom(2).hex()}"
    return [
        _build_member(member, i, names[i], group, source, find, overrides)
        for i, member in enumerate(declared.runs)
    ]


def _build_member(
    member: Member,
    position: int,
    name: str,
    group: str,
    source: Diagnostics,
    find: Callable[[str], Path],
    overrides: Sequence[str],
) -> RunSpec:
    changes = [
        f"{key}={'null' if value is None else str(value)}" for key, value in member.set.items()
    ]
    changes += [text.removeprefix(f"{name}.") for text in overrides if text.startswith(f"{name}.")]
    spec = load_preset(find(member.preset), changes, name)
    gpus = spec.gpus
    if member.gpus is not None and not any(re.match(r"gpus[.=]", text) for text in changes):
        with source.located():
            check_gpus(member.gpus, ("runs", position, "gpus"))
        gpus = member.gpus
    return msgspec.structs.replace(spec, group=group, gpus=gpus)
