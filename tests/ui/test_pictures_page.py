"""Pictures of a run in a real terminal, by keys: leafed through by epoch, beside another run's."""

import json
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.screen_text import ENDED_OR_RUNNING, MAIN_SCREEN, NO_IMAGE, NO_IMAGES, found_of
from tests.ui.conftest import Show, sized

PIL = pytest.importorskip("PIL.Image")
COLOURS = ("red", "green", "blue")


@pytest.fixture
def show(show: Show) -> Show:
    return sized(show, 100, 30, until=ENDED_OR_RUNNING)


def a_run(cli: CommandLine, name: str, epochs: int) -> Path:
    """An ended run with a picture of each epoch, and one that its events name."""
    run = cli.launch("--gpus", "0", "--name", name, "--", "true")
    cli.ended(run)
    folder = run.events.parent
    (folder / "images").mkdir()
    for epoch in range(1, epochs + 1):
        PIL.new("RGB", (40, 20), COLOURS[epoch % 3]).save(folder / "images" / f"epoch_{epoch}.png")
    PIL.new("RGB", (30, 30), "white").save(folder / "curves.png")
    with run.events.open("a") as file:
        line = {"time": 1.0, "type": "image", "path": str(folder / "curves.png")}
        file.write(json.dumps({**line, "caption": "all curves"}) + "\n")
    return folder


def test_pictures_are_leafed_through_alone_and_beside_another_run(
    cli: CommandLine, show: Show
) -> None:
    a_run(cli, "first", 3)
    a_run(cli, "second", 2)
    panel = show(FRESNEL_PICTURES="blocks")
    panel.press("I")
    panel.wait_for(rf"epoch 2 \({found_of(2, 2)}")
    panel.wait_for(r"second  epoch 2\s*\n.*epoch_2\.png · 40 × 20")
    panel.wait_for("▀{40,}")
    panel.press("b")
    panel.wait_for(r"second  epoch 2 \(none at epoch 3\)\s+first  epoch 3")
    panel.press("h", "h")
    panel.wait_for(r"second  epoch 1\s+first  epoch 1")
    panel.press("Down")
    panel.wait_for(r"(all curves · curves\.png.*){2}")
    panel.press("b")
    panel.wait_gone("first  newest")
    panel.press("Escape")
    panel.wait_for(MAIN_SCREEN)


def test_what_is_no_picture_is_said_and_without_colour_there_are_shades(
    cli: CommandLine, show: Show
) -> None:
    folder = a_run(cli, "only", 1)
    (folder / "images" / "epoch_2.png").write_bytes(b"not a picture")
    panel = show(columns=80, rows=24, NO_COLOR="1")
    panel.press("I")
    panel.wait_for(rf"epoch_2\.png: {NO_IMAGE}")
    panel.press("h")
    panel.wait_for("░{40,}|▒{40,}")


def test_a_run_without_pictures_says_so(cli: CommandLine, show: Show) -> None:
    cli.ended(cli.launch("--gpus", "0", "--", "true"))
    panel = show(FRESNEL_PICTURES="blocks")
    panel.press("I")
    panel.wait_for(NO_IMAGES)


def test_the_command_line_lists_them(cli: CommandLine) -> None:
    a_run(cli, "listed", 2)
    found = cli.json("pictures", "listed")
    assert [(one["epoch"], Path(one["path"]).name) for one in found["pictures"]] == [
        (None, "curves.png"),
        (1, "epoch_1.png"),
        (2, "epoch_2.png"),
    ]
    assert found["pictures"][0]["caption"] == "all curves"
    table = cli.run("pictures", "listed").stdout.splitlines()
    assert table[0].split()[:2] == ["picture", "place"] and "epoch 2" in table[-1]
