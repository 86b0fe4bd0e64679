"""The launch form's fields that every run has: name, place in the queue, price, folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners.model.course import parse_after
from runners.model.errors import WrongInput
from runners.model.spec import After, RunSpec
from runners.presets.declared_keys import declared_key

WORKING_DIRECTORY = "${working_directory}"


class DetailField(NamedTuple):
    """A field of the details.
    Its key, what its empty field says, its help, and whether each run of a group takes it.
    """

    key: str
    hint: str
    help: str
    in_groups: bool = True


def _declared(key: str, spelling: str = "") -> str:
    """What the declaration of a preset's key says, as a hint; how it is spelled in a field."""
    text = declared_key(key).description.removesuffix(".")
    return "; ".join(filter(None, (text[0].lower() + text[1:], spelling)))


FIELDS = (
    DetailField("name", "", "what the run is called in every list", False),
    DetailField("folder", "", "where it runs; relative to where the panel was started", False),
    DetailField(
        "checkpoints",
        "${run_dir}/checkpoints/*",
        _declared("checkpoints", "several separated by spaces"),
        False,
    ),
    DetailField("priority", "0", _declared("priority")),
    DetailField("after", "nobody", _declared("after", "ID or name, ID:failure, ID:any")),
    DetailField("price", "the session's", _declared("price")),
)


def detail_texts(spec: RunSpec) -> dict[str, str]:
    """What stands in the fields for `spec`."""
    after = "" if spec.after is None else f"{spec.after.run}:{spec.after.on}"
    return {
        "name": "" if spec.group else spec.name,
        "folder": "" if spec.working_directory == WORKING_DIRECTORY else spec.working_directory,
        "checkpoints": " ".join(spec.checkpoints),
        "priority": str(spec.priority) if spec.priority else "",
        "after": after.removesuffix(":success"),
        "price": spec.price or "",
    }


def with_details(spec: RunSpec, texts: Mapping[str, str]) -> RunSpec:
    """`spec` with what was typed; fields that are as they were change nothing. WrongInput names the
    field.
    """
    changed = _changed(spec, texts)
    values: dict[str, object] = {}
    if changed.get("name"):
        values["name"] = changed["name"]
    if "folder" in changed:
        values["working_directory"] = absolute_folder(changed["folder"])
    if "checkpoints" in changed:
        values["checkpoints"] = tuple(changed["checkpoints"].split())
    if "priority" in changed:
        values["priority"] = _priority(changed["priority"])
    if "after" in changed:
        values["after"] = _after(changed["after"])
    if "price" in changed:
        values["price"] = changed["price"] or None
        values["price_basis"] = "flag" if changed["price"] else "preset"
    return msgspec.structs.replace(spec, **values)


def detail_arguments(spec: RunSpec, texts: Mapping[str, str], is_here: bool = True) -> list[str]:
    """The headless flags for what was typed; another machine finds a relative folder itself."""
    changed = _changed(spec, texts)
    arguments: list[str] = []
    for key in ("name", "priority", "after", "price"):
        if changed.get(key):
            arguments += [f"--{key}", changed[key]]
    if "folder" in changed:
        folder = absolute_folder(changed["folder"]) if is_here else changed["folder"]
        arguments += ["--set", f"working_directory={folder or WORKING_DIRECTORY}"]
    if "checkpoints" in changed:
        patterns = changed["checkpoints"].split()
        text = patterns[0] if len(patterns) == 1 else json.dumps(patterns)
        arguments += ["--set", f"checkpoints={text}"]
    return arguments


def absolute_folder(text: str) -> str:
    """A folder as typed, from where the panel was started; what has `${…}` in it stays."""
    if "${" in text or not text:
        return text or WORKING_DIRECTORY
    return os.path.normpath(Path.cwd() / Path(text).expanduser())


def _after(text: str) -> After | None:
    try:
        return parse_after(text) if text else None
    except ValueError as error:
        raise WrongInput(f"after: {error}") from None


def _priority(text: str) -> int:
    try:
        return int(text or "0")
    except ValueError:
        raise WrongInput(f"priority: expected a whole number, got {text!r}") from None


def _changed(spec: RunSpec, texts: Mapping[str, str]) -> dict[str, str]:
    before = detail_texts(spec)
    return {key: text.strip() for key, text in texts.items() if text.strip() != before[key]}
