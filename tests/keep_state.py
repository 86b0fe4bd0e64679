"""Write the state folder that a version leaves: `python -m tests.keep_state`, once, at its release.

It goes to `tests/kept/state-0.3` for version 0.3.x, and `tests/process/test_kept_state.py` says what
later versions have to read of it. The machine is lost while a run lives and another waits for it:
the folder is copied then.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from runners import __version__
from runners.host.identity import boot_id, user_name
from tests.support import REPOSITORY, eventually

_TRAIN = """\
for e in 1 2 3 4 5 6; do
  echo "epoch $e/6 loss 0.$((9 - e)) val_psnr 2$e.5"
done
mkdir -p ckpt; echo weights > ckpt/last.pt
exit ${FAIL:-0}
"""
_COMMANDS = (
    "session start --price 1.99 --budget 100 --since now",
    "launch --name first --wait -- sh train.sh --lr 1e-4",
    "tag first good",
    "star first",
    "note first kept",
    "launch --name broken --wait --gpus 2 --env FAIL=3 -- sh train.sh",
    "launch --name flaky --wait --set restart.times=2 --set restart.backoff=0.1"
    " -- sh -c 'test -e once && exit 0; touch once; exit 7'",
    "launch --name capped --wait --set limits.time=1s -- sleep 60",
    "launch --name again --wait --again first",
    "launch --name sweep --wait --set lr=1e-4,3e-4 --parallel 1 -- sh train.sh --lr {lr}",
    "launch --name alive -- sh -c 'echo ready; exec sleep 600'",
    "launch --name next --after alive --priority 5 -- true",
)
_LEFT_OUT = ("*.lock", "signatures.json", "sampler*", "gpus.recent*", "*.reserve", "supervisor.log")
_BOOT = "7b2ab574-d5c6-44ed-a3bb-25c06aa8e620"


def main() -> None:
    kept = REPOSITORY / "tests" / "kept" / ("state-" + ".".join(__version__.split(".")[:2]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place, state = Path(name), Path(name, "state")
        (place / "train").mkdir()
        (place / "train" / "train.sh").write_text(_TRAIN)
        for command in _COMMANDS:
            _run(place, command)
        eventually(
            lambda: any(file.read_text() for file in state.glob("runs/*-alive-*/output.log"))
        )
        shutil.copytree(state, kept, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        _run(place, "stop next")
        _run(place, "stop alive")
    theirs = {name: "/srv/anna", boot_id(): _BOOT, f'"user":"{user_name()}"': '"user":"anna"'}
    for file in filter(Path.is_file, kept.rglob("*")):
        text = file.read_text()
        for word, other in theirs.items():
            text = text.replace(word, other)
        file.write_text(text)
        file.chmod(0o644)


def _run(place: Path, command: str) -> None:
    """A command of fresnel-tui, on a machine of that name with four simulated GPUs."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "PYTHONPATH": str(REPOSITORY),
        "FRESNEL_STATE_DIR": str(place / "state"),
        "FRESNEL_HOST": "gpu-box",
        "FRESNEL_GPUS": "sim:4xH100",
    }
    words = [sys.executable, "-m", "fresnel_tui", *shlex.split(command)]
    done = subprocess.run(words, cwd=place / "train", env=environment, stdin=subprocess.DEVNULL)
    print(f"exit code {done.returncode}: {command}")


if __name__ == "__main__":
    main()
