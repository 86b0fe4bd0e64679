"""The page about one run: names and values have the width there is, also after it has changed."""

import sys

from textual.widgets import Static

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.widgets.runs import RunPane

LONG = "TORCH_NCCL_DUMP_ON_TIMEOUT"


async def test_names_have_room_on_a_wide_terminal_and_leave_it_on_a_narrow_one(
    cli: CommandLine,
) -> None:
    run = cli.command(sys.executable, "-c", "pass", options=["--set", f"environment={{{LONG}: 1}}"])
    cli.ended(run)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: run.id in app.screen.query_one(RunPane).keys)
        await pilot.press("i")

        def lines() -> list[str]:
            text = app.screen.query_one("#run-detail", Static)
            strips = [text.render_line(y) for y in range(text.size.height)]
            return ["".join(part.text for part in strip) for strip in strips]

        def column() -> int:
            found = [line for line in lines() if line.startswith("state")]
            return len(found[0]) - len(found[0].removeprefix("state").lstrip()) if found else 0

        await until(pilot, lambda: column() > len(LONG))
        assert any(LONG in line for line in lines())
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: 0 < column() < 20)
