"""Which checkpoint `--resume` means, and what differs between it and this run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainers.common.checkpoint import (
    LAST,
    SETTINGS_NAME,
    CheckpointFolder,
    checkpoint_name,
    load_checkpoint,
    modified,
    numbered_checkpoints,
)
from trainers.common.counted_run import TrainingRun
from trainers.common.errors import SettingsError
from trainers.common.files import expanded
from trainers.common.randomness import restore_rank_state
from trainers.common.ranks import Ranks, from_leader
from trainers.common.report import run_directory
from trainers.common.settings_parser import plain, read_settings_file

AUTO, AUTO_OR_NEW = "auto", "auto-or-new"


def check_named_files(*asked: str | Path | None) -> None:
    """Raise SettingsError where a file that a run shall go on from or begin with is not there.

    Cheap, for before data is read or made up.
    """
    for path in asked:
        if path and path not in (AUTO, AUTO_OR_NEW) and not expanded(path).is_file():
            raise SettingsError(f"there is no file {path}")


def find_checkpoint(
    asked: str | None, checkpoints: CheckpointFolder, ranks: Ranks, identity: Iterable[str]
) -> tuple[dict[str, Any], Path, list[str]] | None:
    """Return content, path and warnings of the checkpoint `--resume` asks for; None to begin anew.

    `auto` is the newest readable one of this run's folder, else of a sibling run folder whose
    settings agree in all names of `identity`. Raises SettingsError, on every rank, where a named
    file is missing, unreadable or another trainer's, and where `auto` finds none.
    """
    if not asked:
        return None
    names = list(identity)
    found = from_leader(ranks, lambda: _find(asked, checkpoints, names))
    if found is None:
        return None
    path, warnings = found
    content = load_checkpoint(path)
    trainer = content.get("written_by", {}).get("trainer")
    if trainer != checkpoints.trainer:
        wrote = f"was written by {trainer}" if trainer else "does not say who wrote it"
        raise SettingsError(f"{path} {wrote}, and this is {checkpoints.trainer}")
    return content, path, warnings


def _find(
    asked: str, checkpoints: CheckpointFolder, identity: list[str]
) -> tuple[Path, list[str]] | None:
    if asked not in (AUTO, AUTO_OR_NEW):
        return expanded(asked).absolute(), []
    warnings: list[str] = []
    refused: list[str] = []
    for folder in (checkpoints.folder, *_siblings(checkpoints, identity, refused)):
        path, warnings = _newest_readable(folder, warnings)
        if path is not None:
            return path, warnings
    if asked == AUTO_OR_NEW:
        return None
    others = f"; other runs of it differ: {'; '.join(refused[:3])}" if refused else ""
    raise SettingsError(
        f"--resume auto: there is no checkpoint of {checkpoints.trainer} in {checkpoints.folder}"
        f"{' or a run beside it' if run_directory() else ''}{others}."
        " Name a file, or use --resume auto-or-new to begin anew"
    )


def _newest_readable(folder: Path, warnings: list[str]) -> tuple[Path | None, list[str]]:
    """Return the newest numbered checkpoint that loads, and warnings on those that do not."""
    for path in _newest_first(folder):
        try:
            load_checkpoint(path)
        except SettingsError as problem:
            warnings = [*warnings, f"{problem}; the one before it is tried"]
            continue
        return path, warnings
    return None, warnings


def _newest_first(folder: Path) -> list[Path]:
    """Return the numbered checkpoints, the one written last first, in a copied folder too."""
    found, last = numbered_checkpoints(folder)[::-1], folder / LAST
    if not (found and last.is_file()) or any(last.samefile(path) for path in found):
        return found
    # A copy without the files' times: last.pt, else one of them, says which that is.
    try:
        about = load_checkpoint(last)["written_by"]
        name = checkpoint_name(int(about["epoch"]), int(about["step_in_epoch"]))
    except (SettingsError, KeyError):
        return found
    return sorted(found, key=lambda path: path.name != name)


def _siblings(
    checkpoints: CheckpointFolder, identity: list[str], refused: list[str]
) -> Iterator[Path]:
    """Yield other runs' checkpoint folders of this trainer and these settings, newest first."""
    mine = run_directory()
    if mine is None or not checkpoints.folder.is_relative_to(mine):
        return
    inside = checkpoints.folder.relative_to(mine)
    matching = []
    for folder in mine.parent.glob("*/"):
        settings = read_settings_file(folder / inside / SETTINGS_NAME)
        if folder == mine or settings is None or settings[0] != checkpoints.trainer:
            continue
        differing = differences(settings[1], checkpoints.settings, identity)
        written = numbered_checkpoints(folder / inside)
        if differing:
            refused.append(f"in {folder.name} {differing[0]}")
        elif written:
            matching.append((modified(written[-1]), folder / inside))
    yield from (folder for _, folder in sorted(matching, reverse=True))


def differences(
    saved: Mapping[str, Any], current: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    """Return `NAME is X there and Y here` for every name that differs."""
    saved, current = plain(saved), plain(current)
    return [
        f"{name} is {saved.get(name)!r} there and {current.get(name)!r} here"
        for name in names
        if saved.get(name) != current.get(name)
    ]


def restore_and_warn(
    run: TrainingRun,
    content: Mapping[str, Any],
    warnings: Iterable[str],
    ignored: Iterable[str] = (),
) -> None:
    """Put this rank's generators back, and say what was found and what the resume changes."""
    lost = restore_rank_state(content["random"], run.ranks)
    for line in (*warnings, *changes_on_resume(content, run.folder, ignored), lost):
        if line:
            run.reporter.warn(f"resume: {line}")


def changes_on_resume(
    content: Mapping[str, Any], checkpoints: CheckpointFolder, ignored: Iterable[str] = ()
) -> list[str]:
    """Return a warning line for every setting and for the world size that a resume changes."""
    aside = {"resume", "output_dir", "config", "device", "workers", "threads", *ignored}
    saved, current = content["settings"], checkpoints.settings
    lines = differences(saved, current, sorted((set(saved) | set(current)) - aside))
    world = content["written_by"]["world_size"]
    if world != checkpoints.ranks.world:
        lines.append(
            f"{world} process(es) wrote the checkpoint and {checkpoints.ranks.world} go on"
        )
    return lines
