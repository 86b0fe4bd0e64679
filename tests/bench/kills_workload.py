"""What is done while processes are killed: launches of every kind, stops, deletes, from threads."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids

ROOT = Path(__file__).resolve().parents[2]
GPUS = "sim:4xH100"
_COMMAND_WITHIN_S = 120.0
_SECONDS = "${parameters.seconds}"

# Journals its start and end, and whether it ever met itself or another owner of one of its GPUs.
PROGRAM = """
import fcntl, json, os, sys, time
folder, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
run = os.environ["FRESNEL_RUN_ID"]
def journal(word):
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    os.write(os.open(folder + "/journal", flags, 0o600), (run + " " + word + "\\n").encode())
def alone(name, word):
    lock = os.open(folder + "/locks/" + name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        journal(word)
alone(run, "twice")
with open(os.environ["FRESNEL_RUN_DIR"] + "/plan.json") as plan:
    for gpu in json.load(plan)["gpus"]:
        alone(gpu["uuid"], "shares-a-gpu")
journal("start")
time.sleep(seconds)
print("the last line", flush=True)
journal("end")
sys.exit(code)
"""


class Launch(NamedTuple):
    """What one `launch` was to make: the name of its runs, how many, and how often each starts."""

    name: str
    runs: int
    starts: int = 1
    code: int = 0


class Workload:
    """Commands as people and scripts give them, one after the other in each of several threads."""

    def __init__(self, folder: Path, state: StateDirectory, seed: int) -> None:
        self.folder, self.state = folder, state
        self.seed, self.chance = seed, random.Random(seed)
        self._names = itertools.count()
        self.launches: list[Launch] = []
        self.stopped: set[str] = set()
        self.wrong: list[str] = []
        self.commands: set[int] = set()
        """Pids of the commands that run now, which are killed like everything else."""
        self.killed: set[int] = set()
        self.over = threading.Event()
        self.environment = {
            **{name: value for name, value in os.environ.items() if "FRESNEL" not in name},
            "FRESNEL_STATE_DIR": str(state.root),
            "FRESNEL_GPUS": GPUS,
            "FRESNEL_SAMPLER_LINGER_S": "2",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT),
        }
        self._write_presets()

    def _write_presets(self) -> None:
        (self.folder / "locks").mkdir()
        (self.folder / "program.py").write_text(PROGRAM)
        presets = self.folder / "presets"
        presets.mkdir()
        (presets / "member.yaml").write_text(
            f"launcher: command\ncommand: {json.dumps(self._argv(_SECONDS, '0'))}\n"
            "parameters: {seconds: 0.5}\ngpus: 1\nstop: {ladder: [SIGTERM 2s]}\n"
        )
        (presets / "again.yaml").write_text(
            f"launcher: command\ncommand: {json.dumps(self._argv(_SECONDS, '3'))}\n"
            "parameters: {seconds: 0.3}\ngpus: 1\nrestart: {times: 2, backoff: 0.2s}\n"
        )

    def _argv(self, seconds: str, code: str) -> list[str]:
        program = str(self.folder / "program.py")
        return [sys.executable, "-I", "-S", program, str(self.folder), seconds, code]

    def run(self, number: int) -> None:
        """Go on until the kills are over; `number` tells the threads that do so apart."""
        chance = random.Random(self.seed + 1000 * number)
        acts: list[tuple[int, Callable[[], None]]] = [
            (8, self._launch_one), (3, self._launch_pair), (3, self._launch_sweep),
            (3, self._launch_chain), (4, self._launch_restarting), (3, self._stop_some),
            (3, self._delete_some), (2, lambda: self.command("list")),
            (1, lambda: self.command("guard", "set", "--max-age", "9000h")), (1, self._drain),
        ]  # fmt: skip
        doing = [act for weight, act in acts for _ in range(weight)]
        while not self.over.is_set():
            if len(live_run_ids(self.state)) > 14:
                self.command("list")
                continue
            chance.choice(doing)()

    def _name(self) -> str:
        return f"k{next(self._names):04d}"

    def _seconds(self) -> str:
        return f"{self.chance.choice((0.1, 0.5, 1.5, 4.0)) * self.chance.uniform(0.5, 1.5):.2f}"

    def _launch(self, launch: Launch, *words: str) -> None:
        self.launches.append(launch)
        code, output, pid = self.command("launch", *words)
        if code is None or pid in self.killed:
            return
        told = set(output.split())
        made = {run_id for run_id in list_run_ids(self.state) if is_of(run_id, launch.name)}
        if made - told:
            self.wrong.append(f"launch of {launch.name} (exit code {code}) kept {made - told} back")
        if code == 0 and not made:
            self.wrong.append(f"launch of {launch.name} ended with 0 and made nothing")

    def _launch_one(self) -> None:
        name, code = self._name(), self.chance.choice((0, 0, 0, 5))
        gpus = self.chance.choice(("0", "1", "1", "2"))
        words = ["--name", name, "--gpus", gpus, "--", *self._argv(self._seconds(), str(code))]
        self._launch(Launch(name, 1, code=code), *words)

    def _launch_pair(self) -> None:
        name = self._name()
        sides = (f"{name}-l", f"{name}-r")
        members = [
            f"{{preset: member, name: {side}, set: {{seconds: {self._seconds()}}}}}"
            for side in sides
        ]
        preset = self.folder / "presets" / f"pair-{name}.yaml"
        preset.write_text(f"runs: [{', '.join(members)}]\n")
        self._launch(Launch(name, 2), preset.stem)

    def _launch_sweep(self) -> None:
        name = self._name()
        values: set[str] = set()
        while len(values) < 3:  # one value given twice is one run
            values.add(self._seconds())
        swept = ",".join(sorted(values))
        self._launch(Launch(name, 3), "member", "--name", name, "--set", f"seconds={swept}")

    def _launch_chain(self) -> None:
        live = live_run_ids(self.state)
        name = self._name()
        after = ["--after", f"{self.chance.choice(live)}:any"] if live else []
        argv = self._argv(self._seconds(), "0")
        self._launch(Launch(name, 1), "--name", name, "--gpus", "1", *after, "--", *argv)

    def _launch_restarting(self) -> None:
        name = self._name()
        self._launch(Launch(name, 1, starts=3, code=3), "again", "--name", name)

    def _stop_some(self) -> None:
        live = live_run_ids(self.state)
        if live:
            chosen = self.chance.sample(live, min(len(live), 2))
            self.stopped.update(chosen)
            self.command("stop", *chosen, *self.chance.choice(((), ("--force",))))

    def _delete_some(self) -> None:
        ended = sorted(set(list_run_ids(self.state)) - set(live_run_ids(self.state)))
        if len(ended) > 4:
            self.command("delete", *self.chance.sample(ended, 2))
            if self.chance.random() < 0.7:
                self.command("undelete", "last")

    def _drain(self) -> None:
        self.command("drain", "on")
        # A command that was killed has drained nothing, or has not ended it.
        while self.state.drain.exists() and not self.over.is_set():
            self.command("drain", "off")

    def command(self, *words: str) -> tuple[int | None, str, int]:
        """Its exit code (None when it was killed or did not end), what it printed, and its pid."""
        child = subprocess.Popen(
            [sys.executable, "-m", "fresnel_tui", *words],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.commands.add(child.pid)
        try:
            output, problem = child.communicate(timeout=_COMMAND_WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            self.wrong.append(f"{' '.join(words)} did not end")
            return None, "", child.pid
        finally:
            self.commands.discard(child.pid)
        if "Traceback" in problem:
            self.wrong.append(f"{' '.join(words)}: {problem[-600:]}")
        return None if child.returncode < 0 else child.returncode, output, child.pid


def is_of(run_id: str, name: str) -> bool:
    """Whether a run was made by the launch of this name."""
    return name in run_id.split("-")
