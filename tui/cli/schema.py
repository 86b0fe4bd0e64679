"""`schema`: what commands print with --json, as JSON Schema."""

import argparse
import json
from pathlib import Path
from typing import Any

from runners.model.errors import NotFound
from runners.model.suggestions import did_you_mean
from tui.cli.command_table import ALIASES
from tui.cli.output import print_json

_FILE = Path(__file__).with_name("schema.json")


def run_schema(arguments: argparse.Namespace) -> None:
    """Print the schema of one command, or the file with those of all."""
    schemas = read_schemas()
    name = arguments.command
    print_json(schemas if name is None else schema_of(ALIASES.get(name, name), schemas))


def read_schemas() -> dict[str, Any]:
    """The file of all schemas: `commands`, and the `$defs` they share."""
    schemas: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return schemas


def schema_of(name: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of one command, whole by itself; NotFound when it prints no JSON."""
    if name not in schemas["commands"]:
        hint = did_you_mean(name, schemas["commands"]) or "`fresnel-tui --help` lists commands"
        raise NotFound(f"no JSON schema of `{name}`", hint)
    head = {"$schema": schemas["$schema"], "title": f"fresnel-tui {name} --json"}
    return {**head, **schemas["commands"][name], "$defs": schemas["$defs"]}
