"""The settings: every key of settings.yaml as a field; saving keeps the file's comments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Button, Input, Label, Static

from runners.model.errors import FresnelError, sentence_of
from runners.presets.parameter_input import parse_scalar
from runners.presets.reading.settings_edit import change_settings
from runners.presets.reading.user_settings import Settings, read_settings
from runners.state.layout import settings_file
from tui.panel.screen_keys import SETTINGS_KEYS
from tui.panel.screens.dialogs import FormDialog, dialog_box, form_buttons
from tui.panel.terminal.editor import edit_file
from tui.panel.theme.themes import theme_problem
from tui.panel.widgets.launch.fields import FormField

_OTHER_ROWS = 9
"""Borders, a field's help, what is wrong, the buttons."""
_LEAST_ROWS = 4


class SettingKey(NamedTuple):
    """One key of the file: its section, name and help, its value, and what that may be."""

    section: str
    name: str
    help: str
    value: Any
    kind: Any


class SettingsScreen(FormDialog):
    """A field per key; what was changed is written, the rest of the file stays."""

    BINDINGS: ClassVar[list[BindingType]] = SETTINGS_KEYS

    class SettingsChanged(Message):
        """They are other ones now."""

        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.settings = settings

    def __init__(self, settings: Settings, theme: str) -> None:
        super().__init__()
        self.settings = settings
        self._theme = theme

    def compose(self) -> ComposeResult:
        title = f"Settings · {settings_file()}"
        with dialog_box(title, "F2 save · F6 edit the file · Esc close", "wide fit"):
            with VerticalScroll(id="settings-fields", can_focus=False):
                yield from self._fields()
            yield Static(id="fieldhelp")
            yield Static(id="settings-says")
            yield from form_buttons("Save", "save")

    def _fields(self) -> Iterator[Label | FormField]:
        section = ""
        for key in setting_keys(self.settings):
            if key.section != section:
                section = key.section
                yield Label(section, classes="heading")
            value = self._theme if (key.section, key.name) == ("panel", "theme") else key.value
            text = _spell(value)
            yield FormField(
                f"{key.section}.{key.name}", key.name, text, key.help, "not set", wide=True
            )

    def on_resize(self) -> None:
        """The fields have what room the rest of the dialog leaves."""
        rows = max(_LEAST_ROWS, self.size.height - _OTHER_ROWS)
        self.query_one("#settings-fields").styles.max_height = rows

    def on_mount(self) -> None:
        self.query(Input).first().focus()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if isinstance(event.input.parent, FormField):
            event.input.parent.mark()

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Write what was changed; what is wrong is said and nothing is written."""
        keys = {f"{key.section}.{key.name}": key for key in setting_keys(self.settings)}
        changes: dict[tuple[str, str], Any] = {}
        for field in self.query(FormField):
            key = keys[field.key]
            if field.value != field.default:
                changes[key.section, key.name] = _read(key, field.value)
        problem = theme_problem(self.app, changes.get(("panel", "theme"), ""))
        if problem:
            self._show_message(problem)
            return
        try:
            settings = change_settings(changes) if changes else self.settings
        except FresnelError as error:
            self._show_message(str(error))
            return
        self._take(settings)
        text = f"saved {settings_file()}" if changes else "no changes"
        self.notify(text, timeout=4, markup=False)
        self.dismiss(None)

    def action_edit(self) -> None:
        """Open the file in an editor, then say what is wrong with it."""
        path, problem = settings_file(), ""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = edit_file(self.app, path)
            settings = read_settings()
        except (FresnelError, OSError) as error:
            problem = problem or sentence_of(error)
        else:
            self._take(settings)
            problem = problem or theme_problem(self.app, settings.panel.theme)
        if problem:
            self._show_message(problem)
        else:
            self.dismiss(None)

    def _take(self, settings: Settings) -> None:
        self.settings = settings
        self.app.post_message(self.SettingsChanged(settings))

    def _show_message(self, text: str) -> None:
        self.query_one("#settings-says", Static).update(Text(text, style="red"))


def setting_keys(settings: Settings) -> list[SettingKey]:
    """Every key that the file may have, with its value in `settings`."""
    found = []
    for section in settings.__struct_fields__:
        keys = getattr(settings, section)
        hints = get_type_hints(type(keys), include_extras=True)
        for field in msgspec.structs.fields(keys):
            kind, *notes = get_args(hints[field.name]) or (hints[field.name],)
            described = (note.description for note in notes if isinstance(note, msgspec.Meta))
            description = next(filter(None, described), "")
            value = getattr(keys, field.name)
            found.append(SettingKey(section, field.name, _help(description, kind), value, kind))
    return found


def _help(description: str | None, kind: Any) -> str:
    """A key's help, with the words that it may be."""
    while get_args(kind) and not isinstance(get_args(kind)[0], str):
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        choices = [f"{{{', '.join(f'{name}: …' for name in kind.__struct_fields__)}}}"]
    else:
        choices = ["true", "false"] if kind is bool else [str(choice) for choice in get_args(kind)]
    return " · ".join(filter(None, (description or "", " | ".join(choices))))


def _spell(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        given = {
            name: part for name, part in msgspec.structs.asdict(value).items() if part is not None
        }
        return json.dumps(given) if given else ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _read(key: SettingKey, text: str) -> Any:
    """What was typed, as the file shall have it; what does not fit is found when it is checked."""
    if key.kind is str or isinstance(key.value, str):
        return text
    if any(get_origin(kind) in (list, tuple) for kind in (key.kind, *get_args(key.kind))):
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return parts or (None if type(None) in get_args(key.kind) else [])
    value = parse_scalar(text)
    return {} if value is None and isinstance(key.value, msgspec.Struct) else value
