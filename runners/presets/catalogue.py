"""Which presets and groups there are, and where: beside the person, in the user's folder, with us.

A group launches several presets together, each with GPUs of its own: all of them or none.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.host.files import expanded, is_file, names_in, status_of
from runners.model.errors import FresnelError, UnknownPreset, WrongInput
from runners.model.spec import RunSpec
from runners.model.suggestions import nearest_hint
from runners.presets.cross_checks import check_gpus
from runners.presets.load import load_preset, open_preset, spec_of
from runners.presets.preset_schema import Group
from runners.presets.reading.diagnostics import Diagnostics
from runners.presets.reading.typed import decode
from runners.state.layout import preset_folders

NOT_PRESETS = frozenset({"prices"})


class PresetEntry(msgspec.Struct, frozen=True):
    """A preset that was found: one run, several that start together, or the `problem` with it."""

    name: str
    path: str
    specs: tuple[RunSpec, ...] = ()
    description: str = ""
    problem: str | None = None

    @property
    def spec(self) -> RunSpec | None:
        """The one run of this preset; None for a group and for a preset that cannot be loaded."""
        return self.specs[0] if len(self.specs) == 1 and not self.specs[0].group else None


def list_presets() -> list[PresetEntry]:
    """Every preset by name; a file in a nearer folder hides one of the same name further away."""
    return [_entry(path) for _, path in sorted(_files_by_name().items())]


def _files_by_name() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in preset_folders():
        for path in (folder / name for name in names_in(folder)):
            # What begins with a dot is an editor's: Emacs's locks are links to nowhere.
            is_named = path.suffix in (".yaml", ".yml") and not path.name.startswith(".")
            if is_named and path.stem not in NOT_PRESETS:
                found.setdefault(path.stem, path)
    return found


def find_preset(name: str, beside: Path | None = None) -> Path:
    """The file of the preset `name`, which may also be a path to a YAML file.

    `beside`: the folder of the group that names it. Raises UnknownPreset, which names the nearest.
    """
    direct = expanded(name)
    if direct.suffix in (".yaml", ".yml"):
        for path in (direct, *([] if beside is None else [beside / direct])):
            if os.path.lexists(path):
                return path
    for folder in (*preset_folders(), *([] if beside is None else [beside])):
        for suffix in (".yaml", ".yml"):
            path = folder / f"{name}{suffix}"
            if name not in NOT_PRESETS and is_file(path):
                return path
    # By their files alone: to read them all would look for what this one's group names, and so on.
    names = sorted(_files_by_name())
    raise UnknownPreset(
        f"no preset `{name}`{nearest_hint(name, names)}",
        f"presets: {', '.join(names) or 'none'}; looked in {', '.join(map(str, preset_folders()))}",
    )


def resolve_runs(name: str, overrides: Sequence[str] = (), run_name: str = "") -> list[RunSpec]:
    """The RunSpecs of the preset `name` with overrides: one, or those of a group."""
    path = find_preset(name)
    return _specs(path, *open_preset(path), overrides, run_name)


def _specs(
    path: Path,
    values: dict[str, Any],
    source: Diagnostics,
    overrides: Sequence[str] = (),
    run_name: str = "",
) -> list[RunSpec]:
    if "runs" in values:
        return load_group(path, values, source, overrides, run_name)
    return [spec_of(path, run_name, values, overrides, source)]


def resolve_preset(name: str, overrides: Sequence[str] = (), run_name: str = "") -> RunSpec:
    """The RunSpec of the preset `name`, which must be a single run, with overrides."""
    specs = resolve_runs(name, overrides, run_name)
    if specs[0].group:
        raise WrongInput(f"`{name}` is a group of {len(specs)} runs; one was expected")
    return specs[0]


_kept: dict[Path, tuple[tuple[int, int], PresetEntry]] = {}


def _entry(path: Path) -> PresetEntry:
    """The preset in a file; read again only when the file changed, where nothing else is in it."""
    found = status_of(path)
    if found is None:
        return _read_entry(path)
    version = (found.st_mtime_ns, found.st_size)
    kept = _kept.get(path)
    if kept is not None and kept[0] == version:
        return kept[1]
    entry = _read_entry(path)
    if entry.spec is not None and entry.spec.config is None:
        _kept[path] = (version, entry)
    return entry


def _read_entry(path: Path) -> PresetEntry:
    try:
        values, source = open_preset(path)
        specs = tuple(_specs(path, values, source))
        return PresetEntry(path.stem, str(path), specs, str(values.get("description", "")))
    except FresnelError as error:
        return PresetEntry(path.stem, str(path), problem=str(error))


def load_group(
    path: Path,
    values: dict[str, Any],
    source: Diagnostics,
    overrides: Sequence[str],
    name: str,
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
    specs = []
    for i, (member, called) in enumerate(zip(declared.runs, names, strict=True)):
        changes = [
            f"{key}={'null' if value is None else str(value)}" for key, value in member.set.items()
        ]
        own = f"{called}."
        changes += [text.removeprefix(own) for text in overrides if text.startswith(own)]
        if member.gpus is not None:
            with source.located():
                check_gpus(member.gpus, ("runs", i, "gpus"))
        place, gpus = find_preset(member.preset, path.parent), values["runs"][i].get("gpus")
        spec = load_preset(place, changes, called, gpus)
        specs.append(msgspec.structs.replace(spec, group=group))
    return specs
