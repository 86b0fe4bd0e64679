"""State folders to measure in: commands run there, runs launched there, thousands of ended ones
made there.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from measure import REPOSITORY, write

_OURS = ("FRESNEL_", "CUDA_", "HIP_", "ROCR_", "NVML_", "PYTHON", "XDG_", "NO_COLOR", "TEXTUAL")
_SCRIPT = Path(sys.executable).with_name("fresnel-tui")
FRESNEL = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "fresnel_tui"]
"""The command as people type it, where it is installed beside this Python."""
PYTHON = [sys.executable, "-I", "-S"]
"""A Python that starts in about 10 ms, for children that must tell the time."""

# A run that trained for a while: what it printed, reported and saved is what front ends have to
# read.
STORY = """\
import json, os, time
folder = os.environ["FRESNEL_RUN_DIR"]
os.makedirs(folder + "/checkpoints")
open(folder + "/checkpoints/last.pt", "wb").write(bytes(64))
with open(folder + "/events.jsonl", "a") as out:
    tell = lambda **event: out.write(json.dumps({"time": time.time(), **event}) + "\\n")
    tell(type="start", epochs=5, steps=100)
    for step in range(0, 100, 5):
        values = {"loss": 1 / (step + 1), "lr": 1e-4}
        tell(type="metrics", epoch=step // 20 + 1, step=step, values=values)
        print(f"epoch {step // 20 + 1} step {step} loss {1 / (step + 1):.4f}")
    tell(type="summary", values={"loss": 0.01, "held_out_psnr": 24.9, "held_out_ssim": 0.8})
"""
_MOMENT = re.compile(rb"\b(1[0-9]{9}(?:\.[0-9]+)?)\b")
_ID = b"\x00run\x00"
STAMP = (
    "import os, time; os.write(1, b'T=%d. first byte\\\\n' % time.monotonic_ns()); time.sleep(600)"
)
PRESETS = {
    "aa-first-byte": f"""\
launcher: command
command: [{", ".join(json.dumps(word) for word in PYTHON)}, "-c", "{STAMP}"]
gpus: 1
stop: {{ladder: [SIGKILL 5s]}}
""",
    "bench-done": f"""\
launcher: command
command: [{", ".join(json.dumps(word) for word in PYTHON)}, story.py]
gpus: 1
checkpoints: ["${{run_dir}}/checkpoints/*.pt"]
price: amd-cloud-mi300x
""",
}


class Place:
    """A state folder with the environment that leads there."""

    def __init__(self, folder: Path, gpus: str = "none", **more: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.presets = folder / "config" / "fresnel-tui" / "presets"
        self.presets.mkdir(parents=True)
        for name, text in PRESETS.items():
            (self.presets / f"{name}.yaml").write_text(text)
        (folder / "story.py").write_text(STORY)
        self.env = {
            name: value
            for name, value in os.environ.items()
            # Who installs it has its modules compiled once.
            if not name.startswith(_OURS) and name != "PYTHONDONTWRITEBYTECODE"
        } | {
            "FRESNEL_STATE_DIR": str(self.state),
            "FRESNEL_GPUS": gpus,
            "FRESNEL_SAMPLER_LINGER_S": "2",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(REPOSITORY),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            **more,
        }

    def __enter__(self) -> "Place":
        """Nothing to start."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every run that lives here."""
        self.run("stop", "--all", "--force", "--wait", check=False)

    def run(
        self, *words: str, check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """A headless command; RuntimeError when it fails."""
        ended = subprocess.run(
            [*FRESNEL, "--no-ui", *words],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and ended.returncode:
            raise RuntimeError(f"`{words[0]}`: exit code {ended.returncode}: {ended.stderr[-300:]}")
        return ended

    def launch(self, name: str, *command: str, gpus: str = "0") -> str:
        """Launch a command; the run's id."""
        return self.run("launch", "--gpus", gpus, "--name", name, "--", *command).stdout.strip()

    def launch_sleepers(self, names: Iterable[str], gpus: str = "0") -> list[str]:
        """Launch a `sleep` for each name, two commands at a time."""
        with ThreadPoolExecutor(2) as two:
            return list(
                two.map(lambda name: self.launch(name, "sleep", "100000", gpus=gpus), names)
            )

    def record(self, run_id: str) -> dict[str, int]:
        """What a live run's supervisor last wrote, waited for until the program runs."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                record = json.loads((self.state / "runs" / run_id / "state.json").read_text())
                if record["state"] == "running" and record["waiter_pid"]:
                    return record | {
                        "leader_pid": int((self.state / "runs" / run_id / "leader").read_text())
                    }
            except (OSError, ValueError, KeyError):
                pass
            time.sleep(0.02)
        raise TimeoutError("a run did not start")

    def add_ended(self, count: int) -> None:
        """`count` ended runs, copies of a real one under other ids."""
        original = self.run("launch", "bench-done", "--wait").stdout.strip()
        folder = self.state / "runs" / original
        deadline = time.monotonic() + 30
        while not (folder / "final.json").exists() and time.monotonic() < deadline:
            time.sleep(0.02)  # its last and best values are kept a moment after its end
        created = float(json.loads((folder / "plan.json").read_text())["origin"]["created"])
        files = [
            (path.relative_to(folder), path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
        # Every moment of the original moves with its copy: runs that all ended at once would share
        # their machine, which costs more to reckon than runs one after the other.
        parts = [
            (name, _MOMENT.split(text.replace(original.encode(), _ID))) for name, text in files
        ]
        label = original[len("20261120-101500-") :].rpartition("-")[0]
        first = time.time() - count * 600 - 3600
        for number in range(count):
            moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(first + number * 600))
            run_id = f"{moment}-{label}-{number & 0xFFFF:04x}"
            copy = folder.with_name(run_id)
            copy.mkdir(mode=0o700)
            (copy / "checkpoints").mkdir(mode=0o700)
            shift = first + number * 600 - created
            for name, pieces in parts:
                moved = [
                    str(float(piece) + shift).encode() if place % 2 else piece
                    for place, piece in enumerate(pieces)
                ]
                (copy / name).write_bytes(b"".join(moved).replace(_ID, run_id.encode()))
        self.run("list")  # enters them in the ledger: two commands at once would both do so


@dataclass
class Bench:
    """What a group gets: room on the disk, and how thorough to be."""

    folder: Path
    quick: bool
    stack: ExitStack = field(default_factory=ExitStack)
    _crowd: Place | None = None

    def count(self, full: int, quick: int) -> int:
        """How often, or how many."""
        return quick if self.quick else full

    @property
    def live(self) -> int:
        """Live runs in the crowd."""
        return self.count(20, 6)

    @property
    def ended(self) -> int:
        """Ended runs in the crowd."""
        return self.count(10_000, 300)

    def place(self, name: str, gpus: str = "none", **more: str) -> Place:
        """A new state folder; its runs end with the bench."""
        folder = self.folder / name
        folder.mkdir()
        return self.stack.enter_context(Place(folder, gpus, **more))

    def crowd(self) -> Place:
        """Eight simulated GPUs, `live` runs (the last is called newest) and `ended` ones; made
        once.
        """
        if self._crowd is None:
            began = time.monotonic()
            place = self.place("crowd", "sim:8xMI300X")
            place.add_ended(self.ended)
            place.launch_sleepers([f"live-{i:02}" for i in range(self.live - 1)])
            place.launch("newest", "sleep", "100000", gpus="1")
            self._crowd = place
            write(
                f"  made {self.live} live and {self.ended:,} ended runs in "
                f"{time.monotonic() - began:.0f} s"
            )
        return self._crowd

    def spoken(self) -> str:
        """The crowd in words."""
        return f"{self.live} live and {self.ended:,} ended runs"
