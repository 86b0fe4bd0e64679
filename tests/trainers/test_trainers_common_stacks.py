"""A trainer of ours writes its stacks when it is asked to, and goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import REPOSITORY, eventually

pytestmark = pytest.mark.trainers

PROGRAM = """
import sys, time
from trainers.common.stacks import answer_with_stacks
print(answer_with_stacks(), answer_with_stacks(), flush=True)
def wait_for_data():
    sys.stdin.read()
wait_for_data()
print("goes on", flush=True)
"""


def start(**environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_sigusr2_writes_the_stacks_and_the_trainer_goes_on(tmp_path: Path) -> None:
    with start(FRESNEL_RUN_DIR=str(tmp_path)) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "True True\n"
        answer = tmp_path / "stacks" / f"answer.{child.pid}.txt"

        def waits_for_data() -> bool:
            child.send_signal(signal.SIGUSR2)  # what it printed came before it began to wait
            return "wait_for_data" in answer.read_text()

        eventually(waits_for_data, what="its stack")
        child.stdin.close()
        assert child.stdout.read() == "goes on\n" and child.wait() == 0


def test_without_a_panel_the_signal_is_left_alone() -> None:
    with start(FRESNEL_RUN_DIR="") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "False False\n"
        child.send_signal(signal.SIGUSR2)
        assert child.wait() == -signal.SIGUSR2
