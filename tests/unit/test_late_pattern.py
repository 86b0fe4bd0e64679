"""Regular expressions that are compiled on their first use."""

import importlib
import pkgutil
import re
import subprocess
import sys

import pytest

import runners
import tui
from runners.model.late_pattern import late_pattern
from tests.support import REPOSITORY


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


_YAML = """
import re
at_once = re.compile
from runners.presets.reading.yaml_lines import CoreLoader, parse_yaml
from pathlib import Path
assert re.compile is at_once
found, _ = parse_yaml("a: 1e-4\\nb: !!timestamp 2026-11-28", Path("x"))
assert found["a"] == 1e-4 and found["b"].year == 2026
assert "search" not in vars(CoreLoader.NON_PRINTABLE)
print(type(CoreLoader.NON_PRINTABLE).__name__, CoreLoader("b: no").get_data())
"""


def test_yaml_is_imported_without_compiling_its_own() -> None:
    """Each command that reads a preset pays for it."""
    done = subprocess.run(
        [sys.executable, "-c", _YAML], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{type(late_pattern('')).__name__} {{'b': 'no'}}\n", done.stderr
