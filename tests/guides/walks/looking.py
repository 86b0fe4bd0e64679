"""What steps of several guides look at: plans, command lines, findings of `verify`, old files."""

import sys
from pathlib import Path
from typing import Any

from tests.guides.conftest import GuideCommands
from tests.warm import TORCH

SAVE_ON = """\
import sys, torch
torch.serialization.register_package(1, lambda storage: sys.argv[3], lambda storage, place: None)
torch.save(torch.load(sys.argv[1], weights_only=True), sys.argv[2])
"""
"""Saves the file argv[1] as argv[2], as if its tensors lay on the device argv[3]."""


def plan(guide: GuideCommands, preset: str, *words: str) -> dict[str, Any]:
    """The plan of one run, whether or not its data is there."""
    found: dict[str, Any] = guide.json("plan", preset, *words, "--no-verify")
    return found


def line(planned: dict[str, Any]) -> str:
    """Its command line, words apart by one blank."""
    return " ".join(planned["argv"])


def visible(planned: dict[str, Any]) -> str:
    """The GPUs that its program sees."""
    return str(planned["environment"]["CUDA_VISIBLE_DEVICES"])


def findings(guide: GuideCommands, *words: str, exits: int = 0) -> list[tuple[str, str, str]]:
    """Verdict, message and advice of every check of a preset."""
    found = guide.json("verify", *words, exits=exits)
    return [
        (one["verdict"], one["message"], one["advice"])
        for run in found["runs"]
        for one in run["checks"]
    ]


def objections(guide: GuideCommands, *words: str) -> str:
    """What `verify` says FAIL of, with its advice, in one text; it must end with 1."""
    found = findings(guide, *words, exits=1)
    return "\n".join(f"{text} {advice}" for verdict, text, advice in found if verdict == "FAIL")


def save_as_on(plain: Path, file: Path, device: str) -> None:
    """Write `file` with the content of `plain`, as if saved from another device."""
    program = file.with_suffix(".saving.py")
    program.write_text(SAVE_ON)
    words = [sys.executable, str(program), str(plain), str(file), device]
    TORCH.run(words, check=True, timeout=100)
    program.unlink()


def output(guide: GuideCommands, run: str) -> str:
    """What a run printed."""
    return guide.state.run(run).output.read_text(errors="replace")
