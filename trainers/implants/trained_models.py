"""Which trained models the pipeline uses: named files, or the newest that runs beside it left."""

from __future__ import annotations

from pathlib import Path

from trainers.common.checkpoint import SETTINGS_NAME
from trainers.common.errors import SettingsError
from trainers.common.files import expanded
from trainers.common.report import run_directory
from trainers.common.settings_parser import read_settings_file

AUTO = "auto"
SHIPPED = {
    name: Path(__file__).parents[1] / name / "tiny" / f"{name}.safetensors"
    for name in ("pcdiff", "voxelization")
}
"""Small models by trainer, trained by the recipes beside them on made-up skulls."""
CHECKPOINTS = ("best.pt", "last.pt")


def find_model(
    asked: str, trainer: str, flag: str, folders: list[Path] | None = None
) -> Path | None:
    """Return the file that a flag names, or for `auto` the newest of a trainer's runs, or None.

    Runs are looked for beside `$FRESNEL_RUN_DIR`, without one in the working directory, or in
    `folders`. Raises SettingsError where a named file is not there.
    """
    if asked != AUTO:
        path = expanded(asked)
        if not path.is_file():
            raise SettingsError(f"{flag}: there is no file {path}")
        return path.absolute()
    if folders is None:
        mine = run_directory()
        beside = (mine.parent if mine else Path.cwd()).glob("*/")
        folders = [path for path in beside if path != mine]
    found: list[tuple[int, Path]] = []
    for folder in folders:
        settings = read_settings_file(folder / "checkpoints" / SETTINGS_NAME)
        if settings is None or settings[0] != trainer:
            continue
        files = [folder / "checkpoints" / name for name in CHECKPOINTS]
        found += [(file.stat().st_mtime_ns, file) for file in files if file.is_file()][:1]
    return max(found)[1] if found else None
