"""Parameters become command-line words."""

from typing import Any

import pytest

from runners.model.parameters import arguments_of
from runners.presets.parameter_input import build_parameter
from runners.presets.reading.typed import KeyMistake


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (5, ["--p", "5"]),
        (1e-4, ["--p", "0.0001"]),
        (3.0, ["--p", "3.0"]),
        ("a b", ["--p", "a b"]),
        ("", ["--p", ""]),
        (0, ["--p", "0"]),
        (None, []),
        (False, []),
        (True, ["--p"]),
        ([], []),
        ([1, "b", True], ["--p", "1", "b", "true"]),
        ({"value": 5, "flag": "--lr="}, ["--lr=5"]),
        ({"value": [1, 2], "flag": "--sizes="}, ["--sizes=1,2"]),
        ({"value": [], "flag": "--sizes="}, []),
        ({"value": None, "flag": "--lr="}, []),
        ({"value": "data", "flag": ""}, ["data"]),
        ({"value": ["a", "b"], "flag": ""}, ["a", "b"]),
        ({"value": True, "flag": ""}, []),
        ({"value": "optim=adam", "flag": "+x="}, ["+x=optim=adam"]),
        ({"value": 1, "type": "float"}, ["--p", "1.0"]),
        ({"value": 7, "type": "str"}, ["--p", "7"]),
    ],
)
def test_a_parameter_s_words(keys: Any, words: list[str]) -> None:
    assert arguments_of(build_parameter("p", keys)) == words


def test_a_parameter_without_a_value_may_have_a_type() -> None:
    parameter = build_parameter("p", {"value": None, "type": "float", "minimum": 0})
    assert (parameter.type, parameter.value, parameter.minimum) == ("float", None, 0)


@pytest.mark.parametrize("name", ["", "1a", "a b", "-x", "a=b", "ä b"])
def test_a_name_that_would_be_no_flag_is_refused(name: str) -> None:
    with pytest.raises(KeyMistake) as refused:
        build_parameter(name, 1)
    assert refused.value.key == ("parameters", name)
