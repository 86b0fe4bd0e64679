"""Owns a run's program on one of several nodes: its words, its log, the signals it is sent.

Run by srun as `python -I -S node_task.py TARGET PROGRAM…`. Each line of its standard input is the
name of a signal for the program; the end of that input is the end of the run on the first node.
What the first node's program writes goes to the run's output, another's to a file of its node's.
Standard library only.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

# Run by its path, isolated: the folder that contains `runners` is four levels up.
sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from runners.host import helpers
from runners.host.files import read_json, read_tail, replace
from runners.host.locks import is_held
from runners.host.procfs import MARK, marked_processes, read_processes
from runners.lifecycle.supervisor.across_nodes import EXIT
from runners.state.layout import RunDirectory
from runners.state.records import plan_fields

_SHOWN_BYTES = 4096
_ALONE_S = 5.0
_SAMPLER_ANEW_S = 20.0
_FILLED_IN = ("SLURM_NODEID", "SLURM_LAUNCH_NODE_IPADDR")
_OF_NODE = ("PET_LOG_DIR", "TORCHELASTIC_ERROR_FILE")
"""Variables with paths in the run's folder that several nodes must not share."""
# What goes to all processes of a step goes to the program by itself.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class NodeTask:
    """The program of one node."""

    def __init__(self, run: RunDirectory, target: str, argv: list[str]) -> None:
        self._target = target
        self._is_stopped = False
        self.rank = int(os.environ["SLURM_NODEID"])
        self.folder = run.of_node(self.rank)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home = run.home
        # That of the first node is started by the supervisor.
        self._samples = bool(self.rank) and bool(plan_fields(read_json(run.plan))["gpus"])
        self.log = self.folder / run.output.name
        with self.log.open("ab") as output:
            self._program = subprocess.Popen(
                [_filled_in(word) for word in argv],
                env=_environment(run.path, self.folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_heed_signals,
            )

    def obey(self) -> None:
        """Send what is asked for; when nobody is left to ask, end the program."""
        for line in sys.stdin:
            self._is_stopped = True
            with suppress(KeyError):
                self.send(signal.Signals[line.strip()])
        self.send(signal.SIGTERM)
        time.sleep(_ALONE_S)
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program, as the run's stop rule says; SIGKILL to all of the run."""
        leader = self._program.pid
        chosen = [leader]
        if number == signal.SIGKILL:
            own = (os.getpid(), os.getppid())
            chosen += [pid for pid in marked_processes(os.environ[MARK]) if pid not in own]
        elif self._target == "group":
            chosen = [-leader]
        elif self._target == "workers":
            table = read_processes()
            chosen = [pid for pid in table if table[pid].parent == leader] or chosen
        for pid in chosen:
            with suppress(OSError):
                os.kill(pid, number)

    def _await(self) -> int:
        """Wait for the program's end, while this node's sampler reads its GPUs."""
        while True:
            if self._samples and not is_held(self._home.sampler_lock):
                with suppress(OSError):  # no process, or no disk: the program matters more
                    helpers.spawn("start-sampler", self._home.root)
            with suppress(subprocess.TimeoutExpired):
                return self._program.wait(_SAMPLER_ANEW_S)

    def wait(self) -> int:
        """The program's exit status, written down; 128 + signal where one ended it."""
        code = self._await()
        code = code if code >= 0 else 128 - code
        if code and self.rank and not self._is_stopped:
            # By way of srun into the run's output: there it is looked for why a run failed.
            text = read_tail(self.log, _SHOWN_BYTES).decode("utf-8", "replace")
            for line in text.splitlines():
                print(f"[node {self.rank}] {line}", file=sys.stderr)
        with suppress(OSError):  # a full disk: srun tells it, too
            replace(self.folder / EXIT, b"%d\n" % code)
        return code


def _filled_in(word: str) -> str:
    for name in _FILLED_IN:
        word = word.replace(f"${name}", os.environ.get(name, ""))
    return word


def _environment(run: Path, folder: Path) -> dict[str, str]:
    """Ours, with paths of this node's own."""
    mine = {
        name: str(folder / Path(os.environ[name]).name)
        for name in _OF_NODE
        if os.environ.get(name, "").startswith(f"{run}{os.sep}")
    }
    return {**os.environ, **mine}


def _heed_signals() -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)


def main() -> int:
    """Run the program of the command line; its exit status."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    run = RunDirectory.at(os.environ["FRESNEL_RUN_DIR"])
    task = NodeTask(run, sys.argv[1], sys.argv[2:])
    Thread(target=task.obey, daemon=True).start()
    return task.wait()


if __name__ == "__main__":
    sys.exit(main())
