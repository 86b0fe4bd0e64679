"""The shipped trainer's figures: `gaussian-validate` from the command to its summary."""

import importlib.util
import json
import subprocess
import time

from measure import Row, Table, spread
from place import FRESNEL, Bench

GOAL_S = 180


def measure(bench: Bench) -> Table:
    """The table of the trainer."""
    if importlib.util.find_spec("torch") is None:
        return Table("Trainer", [Row("`gaussian-validate`", "open: no torch here")])
    place = bench.place("trainer")
    words = ["--no-ui", "launch", "gaussian-validate", "--wait", "--json"]
    if bench.quick:
        words += ["--set", "epochs=1", "--set", "max_images=8"]
    took, results = [], []
    for _ in range(bench.count(3, 1)):
        began = time.monotonic()
        ended = subprocess.run(
            [*FRESNEL, *words],
            env=place.env,
            cwd=place.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        took.append(time.monotonic() - began)
        if ended.returncode:
            raise RuntimeError(f"exit code {ended.returncode}: {ended.stderr[-300:]}")
        results.append(json.loads(ended.stdout)["metrics"])
    shown = ("loss", "held_out_psnr", "held_out_ssim", "mean_colour_psnr")
    rows = [
        Row(
            "`gaussian-validate`, whole run"
            + (" (quick: 1 epoch, 8 images)" if bench.quick else ""),
            spread(took, "s"),
            goal="< 3 min on two cores",
            reached=None if bench.quick else max(took) < GOAL_S,
        )
    ]
    for name in shown + tuple(sorted(set(results[-1]) - set(shown))):
        values = [float(result[name]) for result in results if result.get(name) is not None]
        if values:
            rows.append(Row(f"`{name}` at its end", spread(values, digits=4)))
    return Table("Trainer", rows, "Held-out means photographs that no training crop comes from.")
