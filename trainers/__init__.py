"""Training programs, each started by its path; they import nothing of ours but this package.

Importing it says how OpenMP's threads wait for each other, which has to be said before torch is
loaded: asleep. Those that spin take the time of whoever else computes on the machine and wait for
each other's turns: beside one busy process the small voxelization network on two threads of two
cores trained in 19 instead of 34 s (alone 8.6 and 9.7 instead of 7.7 and 9.2), and spinning
`skull-both-tiny` took 9 minutes beside another training. OMP_WAIT_POLICY in the environment wins.
"""

import gc
import io
import os
import signal
import sys
from pathlib import Path
from types import TracebackType

_begun: list[str] = []
"""The program that this process is, and not only calls."""


def begin(name: str) -> None:
    """Say that the program whose `__name__` this is begins, before its libraries are loaded.

    PyTorch takes seconds to import, on a disk that is not warm half a minute. Only the program that
    was started says it (not its help, not another rank), and as its first line. Ctrl+C ends it at
    once until its libraries are loaded: there is nothing to save. A line is written when it is
    printed, into a file and through a pipe too.
    """
    quiet = {"-h", "--help"} & set(sys.argv[1:]) or os.environ.get("RANK", "0") != "0"
    if name != "__main__":
        return
    _begun.append(name)
    gc.disable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    # Libraries swallow it now and then while they are loaded, or answer it with a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not quiet:
        program = Path(sys.argv[0])
        print(f"loading      {program.parent.name}/{program.name}: its libraries")


def loaded() -> None:
    """Say that a program's libraries are loaded: nothing of them is garbage.

    Looking through them for some takes 0.1 s of a processor while they are loaded and 0.3 s at the
    program's end.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def leave() -> None:
    """Let Ctrl+C disturb no more how this process ends: its program has its exit code.

    PyTorch answers one with a traceback until the interpreter is gone.
    """
    if _begun:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say_what_is_missing(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A package that is not installed is one line; everything else is as ever."""
    ours = isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(__name__)
    if isinstance(error, ModuleNotFoundError) and not ours:
        install = "pip install 'fresnel-tui[train]' has what the trainers need"
        print(f"{kind.__name__}: {error}: {install}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say_what_is_missing
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
