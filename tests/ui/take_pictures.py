"""Takes the README's pictures: real runs on simulated GPUs, the real panel, exported as SVG (`make
screenshots`).
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
CEILING_S = 120.0
RUNS_CEILING_S = 900.0

os.environ["FRESNEL_GPUS"] = "sim:8xMI300X"
os.environ["FRESNEL_HOST"] = "gpu-box-3"
os.environ["FRESNEL_PICTURES"] = "blocks"
# As in a terminal of all colours, whatever this is started in.
os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import msgspec  # noqa: E402

from runners.cost.sessions import start_session  # noqa: E402
from runners.lifecycle.control.start import start_together  # noqa: E402
from runners.lifecycle.control.stop import request_stop  # noqa: E402
from runners.lifecycle.control.wait import wait_until_ended  # noqa: E402
from runners.model.run import Run  # noqa: E402
from runners.presets.catalogue import resolve_preset  # noqa: E402
from runners.presets.reading.user_settings import PanelKeys, Settings  # noqa: E402
from runners.state.layout import StateDirectory  # noqa: E402
from runners.state.runs import list_runs  # noqa: E402
from runners.watch.metrics.run_metrics import RunMetrics  # noqa: E402
from tui.panel.app import PanelApp  # noqa: E402
from tui.panel.theme.themes import THEMES  # noqa: E402

# Small runs of the trainers that come along: one that ends, and two that go on meanwhile.
ENDS = (("gaussian-tiny", "photographs", ("epochs=3", "max_images=8", "gpus=1")),)
GOES_ON = (
    ("pcdiff-tiny", "completion", ("niter=2000",)),
    ("voxelization-tiny", "surface", ("epochs=2000",)),
)
FIRST_VALUES = 20
"""Of each metric, before a picture is taken."""

LAUNCH = ("n", *"voxelization-tiny", "enter")
ENDED = ("down", "down", "I", "down")
"""From the first live run to the one that has ended, and its pictures behind its curves."""


async def take(
    app: PanelApp, size: tuple[int, int], name: str, keys: tuple[str, ...], ready: str
) -> None:
    """Run the panel at `size`, press `keys`, wait until the text `ready` is shown, save the
    picture.
    """
    async with app.run_test(size=size) as pilot:
        deadline = time.monotonic() + CEILING_S
        await pilot.pause(2.5)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.7)
        while ready not in (svg := app.export_screenshot(title="fresnel-tui")).replace(
            "&#160;", " "
        ):
            await pilot.pause(0.3)
            assert time.monotonic() < deadline, f"{ready!r} never appeared"
        (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(PICTURES / f"{name}.svg")


def main() -> None:
    """Start runs, take every picture, stop the runs."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["FRESNEL_STATE_DIR"] = f"{folder}/state"
        os.chdir(folder)
        state = StateDirectory().create()
        start_session(state, "amd-cloud-mi300x", 8, "now", "100")
        try:
            for one in [start(state, *run) for run in ENDS]:
                wait_until_ended(state, one.id)
            wait_for_values([start(state, *run) for run in GOES_ON])
            asyncio.run(take(PanelApp(state), (120, 36), "cockpit", (), "surface"))
            asyncio.run(take(PanelApp(state), (80, 24), "cockpit-80x24", (), "surface"))
            asyncio.run(take(PanelApp(state), (120, 36), "stop", ("s",), "Newest checkpoint"))
            asyncio.run(
                take(PanelApp(state), (120, 40), "launch", LAUNCH, "Plan: exactly what runs")
            )
            asyncio.run(take(PanelApp(state), (120, 36), "metrics", ("m", "a"), "loss"))
            asyncio.run(take(PanelApp(state), (120, 40), "pictures", ENDED, "epoch 3"))
            for theme in THEMES:
                panel = PanelApp(state, settings=Settings(panel=PanelKeys(theme=theme)))
                asyncio.run(take(panel, (100, 24), f"theme-{theme}", (), "surface"))
        finally:
            for run in list_runs(state, 0):
                request_stop(state, run, force=True)
                wait_until_ended(state, run.id)


def start(state: StateDirectory, preset: str, name: str, changes: tuple[str, ...]) -> Run:
    """Launch a preset with these changes."""
    spec = msgspec.structs.replace(resolve_preset(preset, list(changes)), name=name)
    (run,) = start_together(state, [spec])
    return run


def wait_for_values(runs: list[Run]) -> None:
    """Wait until every run has told enough to draw, and every GPU in use is warm."""
    deadline = time.monotonic() + RUNS_CEILING_S
    for run in runs:
        metrics = RunMetrics(run)
        while longest(metrics) < FIRST_VALUES:
            assert time.monotonic() < deadline, f"{run.name} tells nothing"
            time.sleep(0.5)
            metrics.poll()


def longest(metrics: RunMetrics) -> int:
    """How many values the run's longest own metric has; GPU use and cost come by themselves."""
    own = (one for one in metrics.series().values() if one.source not in ("gpus", "cost"))
    return max(map(len, own), default=0)


if __name__ == "__main__":
    main()
