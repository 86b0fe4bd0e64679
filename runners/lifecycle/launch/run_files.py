"""The files that a launch writes into a run's folder; one with secrets stays in memory."""

from collections.abc import Mapping
from pathlib import Path

from runners.host.files import replace
from runners.lifecycle.supervisor.kept_environment import keep_file
from runners.model.masking import mask_text
from runners.state.layout import RunDirectory


def write_files(run: RunDirectory, files: Mapping[str, str]) -> None:
    """Write `files`, texts by name. Raises OSError.

    A text with secrets is written masked, as `NAME.masked`; under its own name the folder has a
    link to the real one, which is in memory. Where there is no such memory it has the real one.
    """
    for name, text in files.items():
        path, masked = run.path / name, mask_text(text)
        kept = keep_file(run, name, text.encode()) if masked != text else ""
        if not kept:
            replace(path, text.encode())
            continue
        replace(path.with_name(f"{name}.masked"), masked.encode())
        draft = Path(f"{path}.new")
        draft.unlink(missing_ok=True)
        draft.symlink_to(kept)
        draft.replace(path)
