"""The way of a preset through our modules while it is planned: `python -m tests.walk [PRESET …]`.

Each function of ours counts once, where it is called first. A room is a module, a return is a step
back into a room that was left before. Nothing is started, and nothing is kept.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
OURS = tuple(f"{ROOT / name}/" for name in ("tui", "runners"))
WAYS = {
    "specs_from": "tui/cli/specs.py",
    "resolve_runs": "runners/presets/catalogue.py",
    "plan_runs": "runners/lifecycle/launch/planner.py",
    "plan_run": "runners/lifecycle/launch/planner.py",
}
"""The functions whose ways are followed, and where they are."""


class Way(NamedTuple):
    """The rooms in the order in which they were entered, each as often as it was."""

    stays: tuple[str, ...]

    @property
    def rooms(self) -> int:
        """How many rooms there are."""
        return len(set(self.stays))

    @property
    def returns(self) -> int:
        """How often a room was entered that had been left before."""
        return len(self.stays) - self.rooms


def follow(work: Callable[[], object]) -> dict[str, Way]:
    """The ways of those of WAYS that `work` calls, each from its first call to that one's end."""
    stays: dict[str, list[str]] = {}
    inside: dict[int, str] = {}
    seen: dict[str, set[CodeType]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "return" and id(frame) in inside:
            del inside[id(frame)]
        if event != "call" or not code.co_filename.startswith(OURS):
            return
        room = str(Path(code.co_filename).relative_to(ROOT))
        if WAYS.get(code.co_name) == room and code.co_name not in stays:
            stays[code.co_name], seen[code.co_name] = [], set()
            inside[id(frame)] = code.co_name
        if code.co_name == "<module>":
            return  # what is imported is no step of the way
        for name in inside.values():
            if code not in seen[name] and stays[name][-1:] != [room]:
                stays[name].append(room)
            seen[name].add(code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {name: Way(tuple(entered)) for name, entered in stays.items()}


def main(presets: list[str]) -> None:
    """Print the figures of each way."""
    with tempfile.TemporaryDirectory() as state:
        os.environ |= {"FRESNEL_STATE_DIR": state, "FRESNEL_GPUS": "sim:8xH100"}
        from tui.cli import run_command

        for preset in presets or ["gaussian-fast"]:
            for name, way in follow(lambda p=preset: run_command(["plan", p])).items():
                print(
                    f"{preset}: {name}: {way.rooms} rooms, {way.returns} returns", file=sys.stderr
                )
                if "-v" in sys.argv:
                    print("   ", " > ".join(way.stays), file=sys.stderr)


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if word != "-v"])
