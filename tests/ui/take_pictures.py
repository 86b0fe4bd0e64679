"""Takes the README's pictures: real runs on simulated GPUs, the real panel, exported as SVG (`make
screenshots`).
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
CEILING_S = 120.0

os.environ["FRESNEL_GPUS"] = "sim:8xMI300X"
os.environ["FRESNEL_HOST"] = "gpu-box-3"

import msgspec  # noqa: E402

from runners.cost.sessions import start_session  # noqa: E402
from runners.gpus.client import read_gpus  # noqa: E402
from runners.lifecycle.control.start import start_together  # noqa: E402
from runners.lifecycle.control.stop import request_stop  # noqa: E402
from runners.lifecycle.control.wait import wait_until_ended  # noqa: E402
from runners.model.spec import GpuRequest, RunSpec  # noqa: E402
from runners.presets.catalogue import resolve_preset  # noqa: E402
from runners.presets.load import command_spec  # noqa: E402
from runners.presets.reading.settings import PanelKeys, Settings  # noqa: E402
from runners.state.layout import StateDirectory  # noqa: E402
from runners.state.runs import list_runs  # noqa: E402
from tui.panel.app import PanelApp  # noqa: E402
from tui.panel.theme.themes import THEMES  # noqa: E402

# A stand-in for a long training: reports what our trainers report, at a pace one can watch.
SCRIPT = """
import json, math, os, sys, time
epochs, per_epoch, pause = 15000, 4, float(sys.argv[1])
out = open(os.environ["FRESNEL_RUN_DIR"] + "/events.jsonl", "a", buffering=1)
tell = lambda **e: out.write(json.dumps({"time": time.time(), **e}) + "\\n")
tell(type="start", epochs=epochs, steps=epochs * per_epoch)
step = int(sys.argv[2])
while True:
    step += 1
    loss = 0.18 + 0.6 * math.exp(-step / 9000) + 0.02 * math.sin(step / 3)
    tell(type="metrics", epoch=step // per_epoch + 1, step=step, values={"loss": loss})
    clock = time.strftime('%H:%M:%S')
    print(f"[{clock}] epoch {step // per_epoch:>5}/{epochs}  loss {loss:.4f}  lr 1.22e-03", flush=True)
    time.sleep(pause)
"""


# Up to the preset `example`, which names no path of this machine; then two GPUs instead of the CPU.
LAUNCH = ("n", "down", "down", "down", "enter", "end", "backspace", "2")


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
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FRESNEL_STATE_DIR"] = f"{folder}/state"
        os.chdir(folder)
        state = StateDirectory().create()
        start_session(state, "amd-cloud-mi300x", 8, "now", "100")
        (done,) = start_together(
            state, [resolve_preset("gaussian-validate", ["epochs=1", "max_images=10"])]
        )
        wait_until_ended(state, done.id)
        for name, gpus, pause, step in (
            ("pcdiff", "0123456", "0.4", "9200"),
            ("voxelization", "7", "0.9", "1650"),
        ):
            command = [sys.executable, "-c", SCRIPT, pause, step]
            spec = command_spec(command, ["stop.ladder=[SIGINT 60s, SIGKILL 5s]"], name)
            start_together(state, [replace_gpus(spec, tuple(gpus))])
        while any((gpu.utilization or 0) < 85 for gpu in read_gpus(state).gpus):
            time.sleep(0.5)
        try:
            asyncio.run(take(PanelApp(state), (120, 36), "cockpit", (), "ETA"))
            asyncio.run(take(PanelApp(state), (80, 24), "cockpit-80x24", (), "loss"))
            asyncio.run(take(PanelApp(state), (120, 36), "stop", ("s",), "Newest checkpoint"))
            asyncio.run(
                take(PanelApp(state), (120, 40), "launch", LAUNCH, "Plan: exactly what runs")
            )
            asyncio.run(take(PanelApp(state), (120, 36), "metrics", ("m",), "loss"))
            for theme in THEMES:
                panel = PanelApp(state, settings=Settings(panel=PanelKeys(theme=theme)))
                asyncio.run(take(panel, (100, 24), f"theme-{theme}", (), "loss"))
        finally:
            for run in list_runs(state, 0):
                request_stop(state, run, force=True)
                wait_until_ended(state, run.id)


def replace_gpus(spec: RunSpec, ids: tuple[str, ...]) -> RunSpec:
    """The same spec with named GPUs."""
    return msgspec.structs.replace(spec, gpus=GpuRequest(ids=ids, explicit=True))


if __name__ == "__main__":
    main()
