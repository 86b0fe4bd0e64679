"""Presets kept and edited from the launch form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App
from textual.screen import Screen

from runners.host.files import read_plain, replace
from runners.model.errors import FresnelError
from runners.model.spec import RunSpec
from runners.presets.save import preset_path, preset_text, save_preset
from runners.state.layout import SHIPPED_PRESETS, config_dir
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.panel.terminal.editor import edit_file


def ask_to_save(screen: Screen[Any], spec: RunSpec, saved: Callable[[Path], None]) -> None:
    """Ask for a name and write `spec` down under it; one that is taken only when that is wanted.
    FresnelError when it can be no preset at all.
    """
    preset_text(spec)

    def named(name: str | None) -> None:
        if not name:
            return
        path = preset_path(name)
        if path.exists():
            question = QuestionScreen(
                f"Overwrite {name}?", f"{path} exists already and would be replaced.", "Overwrite"
            )
            screen.app.push_screen(question, lambda yes: write(name, True) if yes else None)
        else:
            write(name, False)

    def write(name: str, overwrite: bool) -> None:
        try:
            saved(save_preset(spec, name, overwrite))
        except FresnelError as error:
            screen.notify(str(error), severity="error", timeout=10, markup=False)

    where = f"A name for the preset; it goes to {config_dir() / 'presets'}."
    screen.app.push_screen(LineScreen("Save as a preset", where, spec.name, preset_path), named)


def edit_preset(app: App[Any], path: Path) -> Path:
    """Open a preset in the editor and return the file that was edited.

    One that fresnel-tui ships is copied into the user's own folder first, where it goes before the
    shipped one; a copy that was not changed does not stay.
    """
    shipped, target = path.parent == SHIPPED_PRESETS, path
    if shipped:
        target = config_dir() / "presets" / path.name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(target, read_plain(path))
    problem = edit_file(app, target)
    if problem:
        app.notify(problem, severity="error", timeout=10, markup=False)
    if shipped and read_plain(target) == read_plain(path):
        target.unlink()
        return path
    if shipped:
        app.notify(f"your copy {target} goes before the shipped one", timeout=8, markup=False)
    return target
