"""`${...}` in preset values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.model.placeholders import (
    PLACEHOLDERS,
    check_placeholders,
    substitute,
    used_placeholders,
)

OURS = {name: f"<{name}>" for name in PLACEHOLDERS}
ENVIRONMENT = {"HOME": "/home/anna", "EMPTY": "", "run_dir": "from the environment", "lower": "low"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("${run_dir}/a-${run_id}", "<run_dir>/a-<run_id>"),
        ("${HOME}/x", "/home/anna/x"),
        ("${env:HOME}", "/home/anna"),
        ("${env:run_dir}", "from the environment"),
        ("${NOPE:-fallback}", "fallback"),
        ("${NOPE:-}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("${EMPTY}", ""),
        ("${HOME:-fallback}", "/home/anna"),
        ("${NOPE:-a:-b}", "a:-b"),
        ("$${HOME}", "${HOME}"),
        ("$$${HOME}", "$${HOME}"),
        ("$HOME $ $$", "$HOME $ $$"),
        ("${lower}", "low"),
    ],
)
def test_words_are_filled_in(text: str, filled: str) -> None:
    assert substitute(text, OURS, ENVIRONMENT) == filled


def test_an_unset_variable_is_named_with_the_way_out() -> None:
    with pytest.raises(
        ValueError,
        match=r"\$\{NOPE\}: the environment variable NOPE is not set \(\$\{NOPE:-default\}",
    ):
        substitute("a ${NOPE} b", OURS, ENVIRONMENT)


@pytest.mark.parametrize(
    "text",
    ["${run_dir}", "${ANY_NAME}", "${env:any}", "${x:-1}", "$${whatever}", "${Mixed}", "${a"],
)
def test_what_may_stand_in_a_preset(text: str) -> None:
    check_placeholders(text)


@pytest.mark.parametrize(
    "text", ["${run_dr}", "${}", "${1a}", "${a b}", "${run-dir}", "${gpus}", "${env:}"]
)
def test_what_may_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not known.*Known: run_dir"):
        check_placeholders(text)


def test_a_lower_case_variable_that_is_set_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("scratch_dir", "/scratch")
    check_placeholders("${scratch_dir}/x")


def test_the_words_used_are_known_but_escaped_ones_are_not() -> None:
    assert used_placeholders("${port} $${gpu_ids} ${HOME} ${run_id}") == {"port", "run_id"}


@given(st.text(alphabet="ab${}:-_ /"))
def test_a_text_that_passes_the_check_can_be_filled_or_lacks_a_variable(text: str) -> None:
    try:
        check_placeholders(text)
    except ValueError:
        return
    try:
        substitute(text, OURS, ENVIRONMENT)
    except ValueError as error:
        assert "is not set" in str(error)


@given(st.text())
def test_an_escaped_text_comes_out_as_it_was_written(text: str) -> None:
    if "$${" not in text:
        assert substitute(text.replace("${", "$${"), OURS, ENVIRONMENT) == text
