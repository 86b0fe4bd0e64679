"""Rules of the house that a tool can hold: names, docstrings, nothing of one person's machine."""

import ast
import subprocess
from pathlib import Path

import pytest

from tests.support import REPOSITORY

SOURCES = sorted(
    path
    for folder in ("tui", "runners", "trainers", "tests")
    for path in (REPOSITORY / folder).rglob("*.py")
)
MACHINE = [b"/".join([b"", b"work", b""]), b"/".join([b"", b"tmp", b"venv0"])]


def files() -> list[Path]:
    """Every file of the project that is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        folders = ("tui", "runners", "trainers", "tests", "presets")
        return [
            path
            for folder in folders
            for path in (REPOSITORY / folder).rglob("*")
            if path.is_file()
        ]
    return [
        path
        for name in listed.stdout.decode().split("\0")
        if name and (path := REPOSITORY / name).is_file()
    ]


def test_no_file_names_a_path_of_somebody_s_machine() -> None:
    found = [
        str(path.relative_to(REPOSITORY))
        for path in files()
        if any(word in path.read_bytes() for word in MACHINE)
    ]
    assert not found


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 80 and len(files()) > len(SOURCES)


def test_a_public_class_name_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for folder in ("runners", "tui", "trainers"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where = f"{path.relative_to(REPOSITORY)}:{node.lineno}"
                    places.setdefault(node.name, []).append(where)
    assert not {name: where for name, where in places.items() if len(where) > 1}


@pytest.mark.parametrize("folder", ["runners", "tui"])
def test_a_public_function_has_a_docstring(folder: str) -> None:
    missing = [
        f"{path.relative_to(REPOSITORY)}: {node.name}"
        for path in (REPOSITORY / folder).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not missing
