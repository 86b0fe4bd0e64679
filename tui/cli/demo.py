"""`demo`: a small world to look around in, ended when its panel is left.

GPUs are simulated, the programs are real and tiny; all of it lives in a folder of its own.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runners.host.helpers import this_program
from runners.host.identity import attendance
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import FresnelError, WrongInput
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run
from tui.cli.output import echo

_PROGRAM = Path(__file__).with_name("demo_program.py")
_GPUS = "sim:4xMI300X"
_RATE = "7.96"
_LOOKS, _PAUSE_S = 50, 0.1
_LONG = ("--epochs", "2000", "--pause", "1")


class DemoRun(NamedTuple):
    """A run of the demo: its name, how many GPUs it asks for, the flags of its program."""

    name: str
    gpus: int
    flags: Sequence[str]


RUNS = (
    *(DemoRun(f"quick-lr{lr}", 0, ("--lr", lr, "--epochs", "30")) for lr in ("0.01", "0.1", "0.5")),
    DemoRun("quick-seed1", 0, ("--seed", "1", "--epochs", "30")),
    DemoRun("too-fast", 0, ("--lr", "40", "--epochs", "30")),
    DemoRun("long-a", 1, ("--lr", "0.02", *_LONG)),
    DemoRun("long-b", 1, ("--lr", "0.05", *_LONG)),
    DemoRun("wide", 2, ("--lr", "0.001", *_LONG)),
    DemoRun("on-the-cpu", 0, ("--lr", "0.003", *_LONG)),
    DemoRun("waits", 4, ("--lr", "0.1", *_LONG)),
)
"""Four that end well, one that fails, four that go on, one that has to wait for their GPUs."""

_LINE_DROPS = (signal.SIGHUP, signal.SIGTERM)


def run_demo(arguments: argparse.Namespace) -> int:
    """Make the world, show it in the panel, and take it away when the panel is left."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise WrongInput("the demo needs a terminal", "`fresnel-tui help tutorial` needs none")
    # A line that drops takes the demo with it, as any other way to leave it.
    for number in _LINE_DROPS:
        signal.signal(number, _leave)
    folder = Path(tempfile.mkdtemp(prefix="fresnel-demo-"))
    # What is done here below sees this folder too, not only the commands.
    os.environ.update(FRESNEL_STATE_DIR=str(folder / "state"), FRESNEL_GPUS=_GPUS)
    try:
        echo(f"Simulated GPUs and {len(RUNS)} tiny runs in {folder}; q ends all of them.")
        _make(os.environ)
        return subprocess.run(this_program(), check=False).returncode
    finally:
        _stay()
        _end(StateDirectory())
        _remove(folder)
        with suppress(OSError):  # the terminal may be gone
            echo("The demo has ended, and its folder is gone.")


def _remove(folder: Path) -> None:
    """Remove the demo's folder; a helper that is about to leave may still write into it."""
    for _ in range(_LOOKS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


def _leave(number: int, frame: object) -> None:
    del frame
    _stay()
    sys.exit(128 + number)


def _stay() -> None:
    """Clear up to the end: kernel and shell each say that the line has dropped."""
    for number in _LINE_DROPS:
        signal.signal(number, lambda *_: None)


def _make(environment: Mapping[str, str]) -> None:
    """Open a session and launch the runs; FresnelError with what a command said against it."""
    _command(environment, "session", "start", "--rate", _RATE, "--since", "now", "--budget", "50")
    for run in RUNS:
        _command(
            environment,
            *("launch", "--gpus", str(run.gpus), "--name", run.name, "--", sys.executable),
            *(str(_PROGRAM), *run.flags),
        )


def _command(environment: Mapping[str, str], *arguments: str) -> None:
    done = subprocess.run(
        this_program("--no-ui", *arguments),
        env={**environment, **attendance()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FresnelError(f"the demo could not be made: {done.stderr.strip()}")


def _end(state: StateDirectory) -> None:
    """End every run of the demo, and wait until they have ended."""
    live = live_run_ids(state)
    for run_id in live:
        request_stop(state, read_run(state, run_id), force=True)
    for run_id in live:
        wait_until_ended(state, run_id)
