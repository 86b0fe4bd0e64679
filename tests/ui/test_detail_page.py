"""The page about one run: names and values have the width there is, also after it has changed."""

import sys

from textual.widgets import Static

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.dialogs import PageScroll
from tui.panel.widgets.runs import RunPane

LONG = "TORCH_NCCL_DUMP_ON_TIMEOUT"


def lines(app: PanelApp) -> list[str]:
    """The rows of the details."""
    text = app.screen.query_one("#run-detail", Static)
    strips = [text.render_line(y) for y in range(text.size.height)]
    return ["".join(part.text for part in strip) for strip in strips]


async def test_names_have_room_on_a_wide_terminal_and_leave_it_on_a_narrow_one(
    cli: CommandLine,
) -> None:
    run = cli.command(sys.executable, "-c", "pass", options=["--set", f"environment={{{LONG}: 1}}"])
    cli.ended(run)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: run.id in app.screen.query_one(RunPane).keys)
        await pilot.press("i")

        def column() -> int:
            found = [line for line in lines(app) if line.startswith("state")]
            return len(found[0]) - len(found[0].removeprefix("state").lstrip()) if found else 0

        for width, height in ((200, 60), (160, 40), (120, 40)):
            await pilot.resize_terminal(width, height)
            await until(pilot, lambda width=width: app.screen.size.width == width)
            await until(pilot, lambda: any(LONG in line for line in lines(app)))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: 0 < column() < 20)


async def test_a_wide_terminal_has_all_of_it_in_two_columns(cli: CommandLine) -> None:
    """Of about one length, nothing below the end; one column where there is less room."""
    run = cli.command(sys.executable, "-c", "print('loss: 0.5')")
    cli.ended(run)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: run.id in app.screen.query_one(RunPane).keys)
        await pilot.press("i")

        await until(pilot, lambda: any("Environment" in line for line in lines(app)))
        rows = lines(app)
        (beside,) = (line for line in rows if "Environment" in line)
        assert beside.index("Environment") > 60
        assert app.screen.query_one(PageScroll).max_scroll_y == 0
        left, right = (
            max(i for i, line in enumerate(rows) if line[part].strip())
            for part in (slice(0, 78), slice(84, None))
        )
        assert abs(left - right) < 12, rows
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: any(line.startswith("Environment") for line in lines(app)))
