"""Starts a program on every node of a Slurm job, and passes on to all what it is told by signals.

Run as `python -I -S across_nodes.py NODES SRUN…` on the first node, as the program of the run. srun
takes a signal for its own end, and kills what it has started: it gets none from here, and its
standard input, which it copies to each node's task, carries their names. Standard library only.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

# Run by its path, isolated: the folder that contains `runners` is four levels up.
sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from runners.host.files import read_plain
from runners.lifecycle.supervisor.pty import FORWARDED
from runners.state.layout import RunDirectory

EXIT = "node.exit"
"""How a node's program ended, in the node's folder."""

_LOOKS_EVERY_S = 0.5
_PATIENCE_S = 30.0
"""So long the other nodes have when one has failed: torchrun gives its own ranks as long."""
_KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_RESTART_COUNT")


class AcrossNodes:
    """One srun, and what has been said to its tasks."""

    def __init__(self, run: RunDirectory, count: int) -> None:
        self._exits = [run.of_node(rank) / EXIT for rank in range(count)]
        for file in self._exits:
            file.unlink(missing_ok=True)  # of an attempt before
        self._reading, self._writing = os.pipe()
        self._passed: list[str] = []

    def pass_on(self, name: str) -> None:
        """Have the signal `name` sent to the program on every node, once it is there."""
        self._passed.append(name)
        with suppress(OSError):  # all have ended
            os.write(self._writing, f"{name}\n".encode())

    def run(self, argv: list[str]) -> int:
        """Run srun until all have ended; return the exit status of the run.

        That is the one of the first node that failed by itself, else srun's: the highest, or 128 +
        signal for one that ended srun.
        """
        srun = subprocess.Popen(
            argv, stdin=self._reading, env=_environment(), start_new_session=True
        )
        os.close(self._reading)
        first, until = 0, 0.0
        while (code := srun.poll()) is None:
            time.sleep(_LOOKS_EVERY_S)
            if not self._passed and (failed := self._failed()):
                rank, first = failed
                text = f"node {rank} failed with exit code {first}: the other nodes are stopped"
                print(text, file=sys.stderr, flush=True)
                until = time.monotonic() + _PATIENCE_S
                self.pass_on("SIGTERM")
            elif first and time.monotonic() > until:
                until = math.inf
                self.pass_on("SIGKILL")
        return first or (code if code >= 0 else 128 - code)

    def _failed(self) -> tuple[int, int] | None:
        """A node whose program has failed, and its exit status; None while there is none."""
        for rank, file in enumerate(self._exits):
            with suppress(OSError, ValueError):
                if code := int(read_plain(file)):
                    return rank, code
        return None


def _environment() -> dict[str, str]:
    """Ours, without what the job was asked for: srun would take it for what is asked of it."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in _KEPT or name.startswith("SLURM_ARRAY_")
    }


def main() -> int:
    """Start srun as the command line says; its exit status."""
    count, *argv = sys.argv[1:]
    if shutil.which(argv[0]) is None:
        print(f"no program `{argv[0]}` on this node", file=sys.stderr)
        return 127
    nodes = AcrossNodes(RunDirectory.at(os.environ["FRESNEL_RUN_DIR"]), int(count))

    def heed(number: int, _: FrameType | None) -> None:
        nodes.pass_on(signal.Signals(number).name)

    for number in FORWARDED:
        signal.signal(number, heed)
    return nodes.run(argv)


if __name__ == "__main__":
    sys.exit(main())
