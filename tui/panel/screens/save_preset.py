"""Presets kept and edited from the launch form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App
from textual.screen import Screen

from runners.host.files import is_there, read_plain, replace
from runners.model.errors import FresnelError, WrongInput, sentence_of
from runners.model.spec import RunSpec
from runners.presets.save import preset_path, preset_text, save_preset
from runners.state.layout import SHIPPED_PRESETS, config_dir
from tui.panel.notifications import notify_error
from tui.panel.screens.dialogs import LineScreen, QuestionScreen, if_answered
from tui.panel.terminal.editor import edit_file
from tui.panel.widgets.launch.form import LaunchForm
from tui.views.runs.launch_choices import LaunchChoice


def presets_are_here(app: App[Any], machine: str) -> bool:
    """Whether presets are this machine's; another one keeps its own, which is told then."""
    if machine:
        text = f"presets of {machine} are kept there: push copies one"
        app.notify(text, timeout=5, markup=False)
    return not machine


def save_form(
    screen: Screen[Any],
    form: LaunchForm,
    specs: Callable[[], list[RunSpec]],
    saved: Callable[[str], None],
) -> None:
    """Keep what stands in the form as a preset of one's own; what speaks against it is told.

    `saved` is called with its name.
    """

    def done(path: Path) -> None:
        screen.notify(f"saved as {path}", timeout=6, markup=False)
        saved(path.stem)

    try:
        if form.single is None:
            raise WrongInput("only a single run can be saved as a preset")
        found = specs()
        if form.sweep is not None:
            raise WrongInput("a sweep cannot be saved as a preset: give each field one value")
        _ask_to_save(screen, found[0], done)
    except FresnelError as error:
        screen.notify(str(error), severity="error", markup=False)


def edit_choice(app: App[Any], choice: LaunchChoice | None, edited: Callable[[str], None]) -> None:
    """Open a choice's file in the editor; what is no preset yet has none."""
    if choice is None or not choice.entry.path:
        app.notify("this is not a preset yet: F5 saves it as one", timeout=4)
        return
    try:
        path = _edit_preset(app, Path(choice.entry.path))
    except OSError as error:
        notify_error(app, sentence_of(error))
    else:
        edited(path.stem)


def _ask_to_save(screen: Screen[Any], spec: RunSpec, saved: Callable[[Path], None]) -> None:
    """Ask for a name and write `spec` down under it; one that is taken only when that is wanted.
    FresnelError when it can be no preset at all.
    """
    preset_text(spec)

    def named(name: str) -> None:
        path = preset_path(name)
        if is_there(path):
            question = QuestionScreen(
                f"Overwrite {name}?", f"{path} exists already and would be replaced.", "Overwrite"
            )
            screen.app.push_screen(question, if_answered(lambda _: write(name, True)))
        else:
            write(name, False)

    def write(name: str, overwrite: bool) -> None:
        try:
            saved(save_preset(spec, name, overwrite))
        except FresnelError as error:
            screen.notify(str(error), severity="error", timeout=10, markup=False)

    where = f"A name for the preset; it goes to {config_dir() / 'presets'}."
    line = LineScreen("Save as a preset", where, spec.name, preset_path)
    screen.app.push_screen(line, if_answered(named))


def _edit_preset(app: App[Any], path: Path) -> Path:
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
