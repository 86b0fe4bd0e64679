"""Patterns find what glob finds, and a search over too much has an end that is said."""

import glob
import json
import os
from pathlib import Path

import pytest

from runners.host.bounded_glob import SearchBudget, bounded_glob, files_below
from runners.host.newest_file import matching_files
from runners.lifecycle.supervisor import checkpoint_retention
from runners.lifecycle.supervisor.attempt_start import CheckpointChoice
from runners.lifecycle.supervisor.checkpoint_retention import CheckpointKeeper
from runners.model.spec import FileRule
from runners.state.layout import StateDirectory
from runners.state.records import plan_fields
from runners.verify import data_facts
from runners.watch.metrics.log_files import LogFileSource
from runners.watch.metrics.tensorboard import BoardSource
from runners.watch.metrics.wandb_files import WandbSource
from tests.support import make_plan, make_run
from tui.views.runs.run_view import view_run

NAMES = ("a.pt", "b/a.pt", "b/c/x.pt", "b/.hidden/y.pt", ".z.pt", "[1].pt", "step-2/model.bin")

PATTERNS = (
    *("*.pt", "**/*.pt", "b/**", "*/*.pt", "b/*/x.pt", "**/c/*.pt", "step-[0-9]", ".*", "?.pt"),
    *("b/c/x.pt", "none/*.pt", "**/.hidden/*", "a.pt/*", "*/", "[[]1].pt", "**"),
)

CUT = "names were looked at"


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
    assert CUT in view_run(run).problem


def test_files_below_a_folder_are_those_that_a_walk_finds(tree: Path) -> None:
    (tree / "b" / "link").symlink_to(tree / "step-2")
    walked = {f"{top}/{name}" for top, _, names in os.walk(tree) for name in names}
    assert set(files_below(str(tree), SearchBudget())) == walked
    assert len(list(files_below(str(tree), SearchBudget(most=2)))) <= 2


def test_metric_files_that_are_searched_for_everywhere_say_so() -> None:
    everything = ["/**/*.no-such-metrics"]
    for source in (
        BoardSource(everything, 0.0),
        WandbSource(everything, 0.0),
        LogFileSource(everything, 0.0),
    ):
        source.poll()
        assert CUT in source.problems[0]


def test_a_search_through_what_cannot_be_looked_at_goes_on() -> None:
    # The kernel answers "invalid argument" for some folders of threads.
    for source in (BoardSource(["/", "/proc/*"], 0.0), LogFileSource(["/proc", "/proc/*"], 0.0)):
        source.poll()
        assert not any("cannot be read" in problem for problem in source.problems)


def _little_budget() -> SearchBudget:
    return SearchBudget(most=1)


def test_a_restart_says_that_a_newer_checkpoint_may_have_been_missed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.host.bounded_glob.acting_budget", _little_budget)
    run = StateDirectory(tree / "state").create().run("mine")
    run.path.mkdir()
    CheckpointChoice(run).arguments(plan_fields({"checkpoints": [f"{tree}/**/*.pt"]}), 0.0)
    (event,) = map(json.loads, run.supervisor_events.read_text().splitlines())
    assert event["type"] == "alert" and CUT in event["text"]


def test_checkpoints_are_not_kept_in_silence_where_not_all_were_found(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_retention, "acting_budget", _little_budget)
    run = StateDirectory(tree / "state").create().run("mine")
    alerts: list[str] = []
    plan = plan_fields({"checkpoints": [f"{tree}/**/*.pt"], "spec": {"keep": {"last": 1}}})
    keeper = CheckpointKeeper(run, plan, 0.0, alerts.append)
    keeper.check(0.0), keeper.check(0.0)
    assert len(alerts) == 1 and CUT in alerts[0]


def test_a_check_of_files_that_were_not_all_found_is_no_verdict_on_their_number(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_facts, "acting_budget", _little_budget)
    rule = FileRule(path="**/*.pt", count=(3, None))
    assert data_facts.rule_facts(rule, [f"{tree}/**/*.pt"], tree).cut
