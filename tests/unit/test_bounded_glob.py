"""Patterns find what glob finds, and a search over too much has an end that is said."""

import glob
import os
from pathlib import Path

import pytest

from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.newest_file import matching_files
from tests.support import make_plan, make_run
from tui.views.runs.run_view import view_run

NAMES = ("a.pt", "b/a.pt", "b/c/x.pt", "b/.hidden/y.pt", ".z.pt", "[1].pt", "step-2/model.bin")

PATTERNS = (
    *("*.pt", "**/*.pt", "b/**", "*/*.pt", "b/*/x.pt", "**/c/*.pt", "step-[0-9]", ".*", "?.pt"),
    *("b/c/x.pt", "none/*.pt", "**/.hidden/*", "a.pt/*", "*/", "[[]1].pt", "**"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_finds_what_glob_finds(tree: Path, pattern: str) -> None:
    whole = f"{tree}/{pattern}"
    known = {os.path.normpath(path) for path in glob.glob(whole, recursive=True)}  # noqa: PTH207
    found = {os.path.normpath(path) for path in bounded_glob(whole, SearchBudget())}
    if pattern.endswith("**"):  # a folder is not among what lies in it
        known -= {str(tree), str(tree / "b")}
        found -= {str(tree), str(tree / "b")}
    assert found == known


def test_a_relative_pattern_is_from_here(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert sorted(bounded_glob("b/**/*.pt", SearchBudget())) == ["b/a.pt", "b/c/x.pt"]


def test_a_link_to_a_folder_is_followed_and_a_loop_ends(tree: Path) -> None:
    elsewhere = tree / "elsewhere"
    (tree / "b").rename(elsewhere)
    (tree / "run").mkdir()
    (tree / "run" / "checkpoints").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(tree / "run")
    found = list(bounded_glob(f"{tree}/run/**/*.pt", SearchBudget()))
    assert sorted(map(os.path.basename, found)) == ["a.pt", "x.pt"]


def test_a_search_over_everything_ends_and_says_so(tree: Path) -> None:
    budget = SearchBudget(most=3)
    assert len(list(bounded_glob(f"{tree}/**/*", budget))) <= 3
    assert "3 names" in budget.cut
    budget = SearchBudget()
    matching_files(["/**/*.no-such-checkpoint"], budget)
    assert budget.cut


def test_the_row_says_that_not_all_was_looked_at(tmp_path: Path) -> None:
    plan = make_plan(checkpoints=("/**/*.no-such-checkpoint",), working_directory=str(tmp_path))
    run = make_run(plan=plan, directory=str(tmp_path))
    assert "names were looked at" in view_run(run).problem
