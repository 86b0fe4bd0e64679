"""Which presets there are, and where: beside the person, in the user's folder, shipped with us."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.model.errors import FresnelError, NotFound
from runners.model.paths import preset_folders
from runners.model.spec import RunSpec
from runners.presets.load import load_preset

NOT_PRESETS = frozenset({"prices"})


class PresetEntry(msgspec.Struct, frozen=True):
    """A preset that was found; `spec` is None and `problem` says why when it cannot be loaded."""

    name: str
    path: str
    spec: RunSpec | None = None
    problem: str | None = None


def list_presets() -> list[PresetEntry]:
    """Every preset by name; a file in a nearer folder hides one of the same name further away."""
    found: dict[str, PresetEntry] = {}
    for folder in preset_folders():
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
            if path.stem not in found and path.stem not in NOT_PRESETS:
                found[path.stem] = _entry(path)
    return [found[name] for name in sorted(found)]


def find_preset(name: str) -> Path:
    """The file of the preset `name`, which may also be a path to a YAML file; NotFound names the nearest."""
    direct = Path(name).expanduser()
    if direct.suffix in (".yaml", ".yml") and direct.is_file():
        return direct
    for folder in preset_folders():
        for suffix in (".yaml", ".yml"):
            path = folder / f"{name}{suffix}"
            if name not in NOT_PRESETS and path.is_file():
                return path
    names = [entry.name for entry in list_presets()]
    close = difflib.get_close_matches(name, names, 1)
    raise NotFound(
        f"no preset `{name}`" + (f"; did you mean `{close[0]}`?" if close else ""),
        f"presets: {', '.join(names) or 'none'}; looked in {', '.join(map(str, preset_folders()))}",
    )


def resolve_preset(name: str, overrides: Sequence[str] = (), run_name: str = "") -> RunSpec:
    """The RunSpec of the preset `name` with overrides."""
    return load_preset(find_preset(name), overrides, run_name)


def _entry(path: Path) -> PresetEntry:
    try:
        return PresetEntry(path.stem, str(path), load_preset(path))
    except FresnelError as error:
        return PresetEntry(path.stem, str(path), problem=str(error))
