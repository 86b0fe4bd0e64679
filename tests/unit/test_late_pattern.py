"""Regular expressions that are compiled on their first use."""

import importlib
import pkgutil
import re

import pytest

import runners
import tui
from runners.model.late_pattern import late_pattern


def test_it_finds_what_a_compiled_one_finds() -> None:
    text = "step: 3 | step: 40"
    for make in (re.compile, late_pattern):
        pattern = make(r"STEP: (?P<at>\d+)", re.IGNORECASE)
        first = pattern.search(text)
        assert first is not None and first["at"] == "3"
        assert [found["at"] for found in pattern.finditer(text, 1)] == ["40"]
        assert pattern.sub("-", text) == "- | -"
        assert pattern.fullmatch("step: 1") and not pattern.match(text, 1)
        assert pattern.pattern == r"STEP: (?P<at>\d+)" and pattern.groups == 1
    assert late_pattern(b"a+").search(b"baa")


def test_nothing_is_compiled_before() -> None:
    pattern = late_pattern("a(?P<unclosed>")
    with pytest.raises(re.error):
        pattern.search("a")


def test_all_of_them_can_be_compiled() -> None:
    """What only one program's output needs is met by nobody else."""
    late = type(late_pattern(""))
    found = [
        pattern
        for package in (runners, tui)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.startswith("tui.package") and "__main__" not in module.name
        for pattern in vars(importlib.import_module(module.name)).values()
        if isinstance(pattern, late)
    ]
    assert len(found) > 100
    for pattern in found:
        re.compile(pattern.pattern, pattern._flags)
