"""The metrics page on a run of a rented machine: its curves come over the link and go on."""

from runners.state.layout import StateDirectory
from tests.command_text import NOT_REACHED_SINCE
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.widgets.runs import RunPane

# Tells its metrics as a program does that writes our events; goes on when it is told to.
PROGRAM = """\
import json, os, time
def tell(**fields):
    with open(os.environ["FRESNEL_RUN_DIR"] + "/events.jsonl", "a") as file:
        file.write(json.dumps({"time": time.time(), **fields}) + "\\n")
tell(type="start", settings={"lr": 0.25})
for step in range(40):
    tell(type="metrics", step=step, values={"loss": 1 / (step + 1), "psnr": 20.0 + step})
while not os.path.exists("go"): time.sleep(0.02)
tell(type="metrics", step=40, values={"loss": 0.001, "psnr": 99.0})
while not os.path.exists("end"): time.sleep(0.02)
"""


async def test_curves_of_a_rented_machine_are_drawn_and_go_on(
    line: CommandLine, rented: RentedMachine
) -> None:
    words = ("launch", "--gpus", "1", "--name", "far", "--host", "rented", "--")
    run = line.run(*words, "python3", "-c", PROGRAM).stdout.strip()
    near = line.run("launch", "--gpus", "0", "--name", "near", "--", "true").stdout.strip()
    folder = rented.home / "fresnel"
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(130, 40)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: f"rented/{run}" in pane.keys)
        pane.select(f"rented/{run}")
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen))
        page = app.screen
        assert isinstance(page, MetricsScreen)

        def shown() -> str:
            return "\n".join(
                segment.text
                for chart in (page._page.charts if page._page else ())
                for row in chart.rows
                for segment in row
            )

        await until(pilot, lambda: "loss" in shown() and "psnr" in shown())
        await until(pilot, lambda: "59" in shown())
        assert "rented/far" in page._line

        (folder / "go").touch()
        await until(pilot, lambda: "99" in shown())
        await until(pilot, lambda: near in page.runs.keys)

        await pilot.press("o")
        pane_text = page.query("#metrics-details-text")
        await until(pilot, lambda: bool(pane_text) and "0.25" in str(pane_text.first().content))

        rented.wire.close()
        await until(pilot, lambda: NOT_REACHED_SINCE in page._line)
        assert "99" in shown()
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is app.cockpit)
    (folder / "end").touch()
