"""YAML as version 1.2 reads it, and the line of every key."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.model.errors import WrongInput
from runners.presets.load import load_preset
from runners.presets.parameter_input import parse_scalar
from runners.presets.reading.yaml_lines import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("-.5", -0.5),
        ("3.", 3.0),
        ("12", 12),
        ("-7", -7),
        ("010", 10),
        ("08", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("no", "no"),
        ("No", "No"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-11-20", "2026-11-20"),
        ("0b11", "0b11"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1.2.3", "1.2.3"),
        ("'5'", "5"),
        ("[1, 2.5, a]", [1, 2.5, "a"]),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = parse_scalar(text)
    assert (found, type(found)) == (value, type(value))


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(parse_scalar(".nan")) and math.isnan(parse_scalar(".NaN"))


@pytest.mark.parametrize(
    "text", ["*nobody", "[1, 2", "a: b: c", "!!int many", "!!bool maybe", "@x", "%", "{", "`x`"]
)
def test_a_value_that_is_no_yaml_is_taken_as_text(text: str) -> None:
    assert parse_scalar(text) == text


@given(st.text(max_size=40))
def test_no_text_typed_behind_set_breaks_the_reader(text: str) -> None:
    parse_scalar(text)


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_numbers_written_by_python_come_back_as_they_were(value: object) -> None:
    text = (
        {True: "true", False: "false", None: "null"}.get(value, repr(value))
        if not isinstance(value, float)
        else repr(value)
    )
    if isinstance(value, int) and not isinstance(value, bool):
        text = repr(value)
    found = parse_scalar({"inf": ".inf", "-inf": "-.inf"}.get(text, text))
    assert (found, type(found)) == (value, type(value))


def test_every_key_knows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# comment\na: 1\nb:\n  c: [x,\n      y]\n  d: {e: 2}\n")
    values, lines = read_yaml(path)
    assert values == {"a": 1, "b": {"c": ["x", "y"], "d": {"e": 2}}}
    assert {key: line for key, line in lines.items() if key} == {
        ("a",): 2,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "c", 0): 4,
        ("b", "c", 1): 5,
        ("b", "d"): 6,
        ("b", "d", "e"): 6,
    }


def test_an_anchor_may_be_used_where_it_helps(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: &x [1, 2]\nb: *x\n")
    assert read_yaml(path)[0] == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{a: " * 5000, "- " * 5000], ids=["lists", "mappings", "items"]
)
def test_a_file_nested_without_end_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(WrongInput, match=r"deep\.yaml"):
        read_yaml(path)


@pytest.mark.parametrize(
    "text", ['a: "\\0"', 'a: "\\ud800"', '"\\0": 1', "!!int a: 1", "!!bool a: 1"]
)
def test_a_text_that_no_file_or_command_can_hold_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(WrongInput, match=r"odd\.yaml:1: .* is not a valid"):
        read_yaml(path)


def test_a_preset_can_run_no_code(tmp_path: Path) -> None:
    path, proof = tmp_path / "evil.yaml", tmp_path / "proof"
    path.write_text(
        f"launcher: !!python/object/apply:os.system ['touch {proof}']\ncommand: 'true'\n"
    )
    with pytest.raises(WrongInput, match="launcher: expected text, got a list"):
        load_preset(path)
    path.write_text("launcher: !!python/name:os.system\n")
    with pytest.raises(WrongInput, match="not valid YAML: could not determine a constructor"):
        load_preset(path)
    assert not proof.exists()
