"""`compare` on real runs: their settings, code and metrics, and the screen of the panel."""

import subprocess
from pathlib import Path

import jsonschema
import pytest
from textual.app import App
from textual.widgets import Static

from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from tests.process.conftest import CommandLine
from tests.ui.waiting import until
from tui.cli.schema import read_schemas, schema_of
from tui.panel.screens.compare import CompareScreen
from tui.views.runs.run_facts import compared_facts

PROGRAM = """\
import sys
rate, seed = float(sys.argv[2]), int(sys.argv[4])
for epoch in range(1, 4):
    print(f"epoch: {epoch}/3 | loss: {1 / (rate * 1000 + epoch + seed / 10):.4f}", flush=True)
"""


@pytest.fixture
def runs(cli: CommandLine) -> list[RunDirectory]:
    """Two ended runs of a program in a repository; its code changed between them."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    Path(cli.folder, "train.py").write_text(PROGRAM)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=cli.folder, check=True)
    first = cli.command("python3", "train.py", "--lr", "1e-3", "--seed", "0")
    cli.ended(first)
    Path(cli.folder, "train.py").write_text(PROGRAM + "# changed\n")
    options = ("--name", "second")
    second = cli.command("python3", "train.py", "--lr", "3e-3", "--seed", "0", options=options)
    cli.ended(second)
    return [first, second]


def test_two_runs_side_by_side(cli: CommandLine, runs: list[RunDirectory]) -> None:
    first, second = runs
    found = cli.json("compare", first.id, "second")
    jsonschema.validate(found, schema_of("compare", read_schemas()))
    assert found["settings"] == [{"name": "lr", "differs": True, "values": ["1e-3", "3e-3"]}]
    changed = next(row for row in found["code"] if row["name"] == "uncommitted")
    assert changed["values"][0] == "nothing" and "train.py" in changed["values"][1]
    assert found["environment"] == [] and found["machine"] == []
    assert found["headline"] == "loss" and found["ranking"] == [second.id, first.id]
    text = cli.run("compare", first.id, "second", "--baseline", first.id).stdout
    assert "3e-3" in text and "(baseline)" in text and "★" in text
    assert "+# changed" in cli.run("compare", first.id, "second", "--code").stdout
    csv = cli.run("compare", first.id, "second", "--csv").stdout.splitlines()
    assert len(csv) == 3 and csv[1].startswith(second.id)
    assert second.id in cli.run("compare", "second", exits=2).stderr
    assert "loss" in cli.run("compare", first.id, "second", "--metric", "x", exits=3).stderr


async def test_the_screen_shows_the_same(cli: CommandLine, runs: list[RunDirectory]) -> None:
    found = [run.id for run in runs]
    app: App[object] = App()
    async with app.run_test(size=(100, 40)) as pilot:
        screen = CompareScreen(len(found))
        app.push_screen(screen)
        for run in found:  # those of several machines come one after the other
            screen.take(compared_facts(cli.state, [read_run(cli.state, run)]))
        await until(pilot, lambda: screen.is_mounted and "3e-3" in shown(app))
        assert "uncommitted" in shown(app) and "command" not in shown(app)
        await pilot.press("a")
        assert "command" in shown(app)
        await pilot.press("b")
        assert "(baseline)" in shown(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, CompareScreen)


def shown(app: App[object]) -> str:
    return str(app.screen.query_one("#comparison", Static).content)
