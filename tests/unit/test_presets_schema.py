"""The JSON Schema, the commented example and the loader know the same keys."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from runners.model.errors import WrongInput
from runners.model.placeholders import PLACEHOLDERS
from runners.presets.catalogue import NOT_PRESETS, resolve_runs
from runners.presets.load import load_preset
from runners.presets.preset_schema import json_schema
from runners.presets.reading.yaml_lines import read_yaml
from runners.state.layout import SHIPPED_PRESETS
from tests.mistakes import MISTAKES

SHIPPED = sorted(path for path in SHIPPED_PRESETS.glob("*.yaml") if path.stem not in NOT_PRESETS)
_VALIDATOR = jsonschema.Draft202012Validator(json_schema())

# What a schema of types and keys cannot say: it sees values one by one, and not the grammar inside
# texts.
BEYOND_A_SCHEMA = {
    "key twice", "private key of a parameter", "name of a variable", "name of a parameter",
    "value against its type",
    "value below the minimum", "value above the maximum", "value that is no choice",
    "minimum above maximum",
    "command without a command", "command and script", "script and command",
    "neither script nor module",
    "both script and module", "shell with a list", "quote that never ends",
    "launcher arguments for python",
    "processes for python", "negative GPU count", "GPU words", "GPU named twice",
    "endless range of GPUs",
    "GPU count and ids", "rung of no signal", "rung without a wait", "rung with a wrong wait",
    "rung after SIGKILL",
    "scaling by a parameter that is none", "scaling by a text", "scaling rule without its base",
    "estimated time", "estimated cost", "unknown word", "unknown word of a parameter",
    "word that is no name",
}  # fmt: skip


def keys_of(name: str) -> set[str]:
    """The keys of one definition of the schema."""
    return set(json_schema()["$defs"][name]["properties"])


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_preset_loads_and_fits_the_schema(path: Path) -> None:
    specs = resolve_runs(str(path))
    assert all(spec.description for spec in specs), "a preset says what it is"
    _VALIDATOR.validate(read_yaml(path)[0])


def test_presets_are_shipped() -> None:
    assert {"example", "gaussian-validate"} <= {path.stem for path in SHIPPED}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(mistake.text, id=name)
        for name, mistake in MISTAKES.items()
        if name not in BEYOND_A_SCHEMA
    ],
)
def test_the_schema_refuses_what_a_schema_can_refuse(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    try:
        values = read_yaml(path)[0]
    except WrongInput:
        return  # no editor's checker gets that far
    assert not _VALIDATOR.is_valid(values)


def test_what_is_called_beyond_a_schema_is_a_mistake_that_exists() -> None:
    assert set(MISTAKES) >= BEYOND_A_SCHEMA


def test_the_commented_example_shows_every_key() -> None:
    text = (SHIPPED_PRESETS / "example.yaml").read_text()
    missing = {key for key in keys_of("RunSpec") if not re.search(rf"\b{key}: ?\S?", text)}
    assert not missing, "example.yaml documents every key"


@pytest.mark.parametrize(
    "definition",
    ["GpuRequest", "GpuShare", "StopRule", "RestartRule", "Limits", "After", "PresetEstimate"],
)
def test_the_commented_example_shows_every_inner_key(definition: str) -> None:
    text = (SHIPPED_PRESETS / "example.yaml").read_text()
    missing = {key for key in keys_of(definition) if not re.search(rf"\b{key}\b", text)}
    assert not missing


def test_the_commented_example_names_every_word() -> None:
    text = (SHIPPED_PRESETS / "example.yaml").read_text()
    assert not {word for word in PLACEHOLDERS if f"${{{word}}}" not in text}


def test_what_is_commented_out_in_the_example_is_valid_too(tmp_path: Path) -> None:
    text = (SHIPPED_PRESETS / "example.yaml").read_text()
    block = re.search(r"^parameters: \{\}\n((?:#   .*\n)+)", text, re.MULTILINE)
    assert block is not None
    path = tmp_path / "a.yaml"
    path.write_text(text.replace(block[0], "parameters:\n" + block[1].replace("#   ", "  ")))
    assert {parameter.name for parameter in load_preset(path).parameters} >= {
        "epochs",
        "lr",
        "optimizer",
    }


def test_every_key_is_described_for_the_editor() -> None:
    undescribed = [
        f"{name}.{key}"
        for name, definition in json_schema()["$defs"].items()
        for key, value in definition.get("properties", {}).items()
        if "description" not in yaml.safe_dump(value) and "$ref" not in value
    ]
    assert not undescribed
