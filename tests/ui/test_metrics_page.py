"""The metrics page in a real terminal, by keys: at 80×24 and wider, without colour, with a run
that goes on.
"""

import json
import time
from pathlib import Path

import pytest

from runners.model.metric_rule import BestMetric
from runners.model.states import State
from runners.state.runs import read_run
from tests.process.conftest import CommandLine
from tests.screen_text import (
    CURSOR,
    ENDED_OR_RUNNING,
    MAIN_SCREEN,
    NO_METRICS,
    NO_SUCH_METRIC,
    NONE_MARKED,
    axis,
    curve,
    run_row,
    setting,
    starred,
    wrote,
)
from tests.support import eventually
from tests.ui.conftest import Show, sized


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 80, 24, until=ENDED_OR_RUNNING)


def a_run(cli: CommandLine, name: str, losses: list[float], *command: str) -> Path:
    """A run that tells its losses and settings; it has ended unless it is given a command that
    goes on.
    """
    run = cli.launch("--gpus", "0", "--name", name, "--", *(command or ("true",)))
    if not command:
        cli.ended(run)
    tell(
        run.events,
        0,
        type="start",
        epochs=1,
        steps=len(losses),
        settings={"lr": losses[0], "batch": 8},
    )
    for i, loss in enumerate(losses, 1):
        tell(
            run.events,
            i,
            type="metrics",
            epoch=1,
            step=i,
            values={"loss": loss, "acc": 1 - loss / 10},
        )
    return run.events


def tell(events: Path, second: float, **event: object) -> None:
    with events.open("a") as file:
        file.write(json.dumps({"time": time.time() + second, **event}) + "\n")


def test_two_runs_are_overlaid_pinned_and_looked_at_closely(cli: CommandLine, show: Show) -> None:
    a_run(cli, "first", [10.0 - i / 10 for i in range(99)])
    a_run(cli, "second", [5.0 - i / 20 for i in range(99)])
    panel = show(columns=120, rows=40)
    panel.press("m")
    panel.wait_for(curve("loss", r"a 0\.1 ↓0\.1@99"))
    panel.wait_for(curve("acc", r"a 0\.99 ↑0\.99@99"))
    assert "b 0.2" not in panel.text
    panel.press("r", "Down", " ")
    panel.wait_for(curve("loss", r"a 0\.1.*\s+b 0\.2"))
    panel.press("p")
    panel.wait_for(starred("b"))
    panel.wait_for(curve("loss", r"★b 0\.2.*\s+a 0\.1"))
    panel.press("r", "c")
    panel.wait_for(curve("loss", r"★b 5\.1\s+a 2\.55"))
    panel.press("z")
    panel.wait_gone("acc")
    panel.press("l")
    panel.wait_for(curve("loss", r"★b 5\s+a 2\.5\b"))
    panel.press("L", "x", "+")
    panel.wait_for(rf"{axis('epoch')} · log · part \d+%–\d+%")
    panel.press("o")
    panel.wait_for(setting("lr", 10, differs=True))
    panel.wait_for(setting("batch", 8))
    panel.press("Escape")
    panel.wait_gone(setting("lr", 10, differs=True))
    assert "acc" not in panel.text, "only the settings, opened last, were closed"
    panel.press("Escape")
    panel.wait_for("acc")
    panel.press("Escape")
    panel.wait_gone(CURSOR)
    panel.press("Escape")
    panel.wait_gone(axis("epoch"))


def test_it_fits_a_small_terminal_without_colour(cli: CommandLine, show: Show) -> None:
    a_run(cli, "first", [10.0 - i / 10 for i in range(99)])
    a_run(cli, "second", [5.0 - i / 20 for i in range(99)])
    panel = show(NO_COLOR="1")
    panel.press("m", "a")
    panel.wait_for(curve("loss", r"a 0\.1.*\s+b 0\.2"))
    assert "● a" not in panel.text, "there is no room for the list until it is asked for"
    panel.press("z")
    panel.wait_gone("acc")
    panel.wait_for(r"[⠀-⣿]b[⠀-⣿](.|\n)*[⠀-⣿]b[⠀-⣿]")
    lines = panel.text.splitlines()
    assert len(lines) == 24 and sum("a" in line for line in lines[2:-2]) >= 2, (
        "letters stand along each curve"
    )


def test_runs_whose_names_have_no_room_are_counted(cli: CommandLine, show: Show) -> None:
    for number in range(4):
        a_run(cli, f"a-run-with-a-long-name-{number}", [3.0, 2.0])
    panel = show()
    panel.press("m", "a")
    panel.wait_for(r"Metrics 1-.* x step   a a-run-with-a-long-name-3  \+3")
    panel = show(columns=160, rows=30)
    panel.press("m", "a")
    panel.wait_for(r"Metrics 1-.*(  [abcd] a-run-with-a-long-name-\d){4}")


def test_the_marked_runs_of_a_sweep_stand_in_the_order_of_the_table(
    cli: CommandLine, show: Show
) -> None:
    sweep = ("--gpus", "0", "--name", "s", "--set", "lr=1..3", "--wait")
    cli.run("launch", *sweep, "--", "echo", "epoch 1 loss 0.{lr}")
    panel = show(columns=140, rows=30)
    panel.wait_for(run_row(State.DONE, "┌ s-lr1"))
    panel.press("Home", " ", " ", " ", "m")
    panel.wait_for(r"● a . s-lr1(.|\n)*● b . s-lr2(.|\n)*● c . s-lr3")


def test_a_pinned_chart_stays_before_the_rest_and_is_written_as_files(
    cli: CommandLine, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.folder)
    events = a_run(cli, "only", [3.0, 2.0, 1.0])
    tell(events, 4, type="metrics", epoch=1, step=3, values={"aaa": 7.0})
    panel = show(columns=100, rows=30)
    panel.press("m")
    panel.wait_for(curve("▸loss", r"a 1 .*aaa\s+a 7"))
    panel.press("j", "P")
    panel.wait_for(curve("loss", r"a 1 .*▸◆acc\s+a 0\.9"))
    panel.press("w")
    words = panel.wait_for(wrote(r"acc-[\d-]+\.svg"))
    svg = cli.folder / words[1]
    assert ">acc</text>" in svg.read_text() and "a only · last 0.9 · best 0.9" in svg.read_text()
    lines = svg.with_suffix(".csv").read_text().splitlines()
    assert lines[0].startswith("metric,run,name,step") and len(lines) == 4
    panel.press("Escape")
    panel.wait_for(MAIN_SCREEN)
    panel.press("m")
    panel.wait_for(curve("▸loss", r"a 1 .*◆acc\s+a 0\.9"))


def test_the_filter_says_what_is_wrong_and_what_is_hidden(cli: CommandLine, show: Show) -> None:
    a_run(cli, "only", [3.0, 2.0, 1.0])
    panel = show()
    panel.press("m")
    panel.wait_for("acc")
    panel.press("/", *"acc")
    panel.wait_gone("loss")
    panel.press("(")
    panel.wait_for(NO_SUCH_METRIC)
    panel.press("Escape")
    panel.wait_gone("╭")
    panel.press("Escape")
    panel.wait_for(MAIN_SCREEN)


def test_a_live_run_s_curve_goes_on(cli: CommandLine, show: Show) -> None:
    events = a_run(cli, "live", [3.0, 2.0], "sleep", "600")
    panel = show()
    panel.press("m")
    panel.wait_for(curve("loss", r"A 2\b"))
    tell(events, 9, type="metrics", epoch=1, step=3, values={"loss": 1.25})
    panel.wait_for(curve("loss", r"A 1\.25"))


def test_a_run_without_metrics_is_said_to_have_none(cli: CommandLine, show: Show) -> None:
    cli.ended(cli.launch("--gpus", "0", "--", "true"))
    panel = show()
    panel.press("m")
    panel.wait_for(NO_METRICS)
    panel.press("r", " ")
    panel.wait_for(NONE_MARKED)


def test_a_key_says_by_which_metric_a_run_is_judged(cli: CommandLine, show: Show) -> None:
    run = a_run(cli, "wobbly", [3.0, 9.0, 5.0]).parent.name
    panel = show()

    def judged_by() -> BestMetric | None:
        return read_run(cli.state, run).labels.best

    panel.press("m")
    panel.wait_for(curve("acc", r"a 0\.5 ↑0\.7@1"))
    panel.press("/", "acc", "Enter")
    panel.wait_gone("loss")
    for best in (BestMetric("acc", True), BestMetric("acc", False), None):
        panel.press("b")
        eventually(lambda best=best: judged_by() == best, what=f"{best}")
        shown = {True: "↑", False: "↓", None: "↑"}[best and best.higher]
        panel.wait_for(curve("acc", rf"a 0\.5 {shown}"))
