"""What ended a run, in one line: what happened, and what to change."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any, TextIO, cast

import torch

from trainers.common.errors import (
    DivergedError,
    ExportError,
    NotFiniteError,
    SettingsError,
    SharedError,
)
from trainers.common.files import LOST_OUTPUT
from trainers.common.ranks import RanksDifferError, grouped

BATCH_FLAGS = ("batch_size", "bs", "eval_batch_size", "num_ens", "samples")
ACCUMULATION_FLAGS = ("accumulate", "accumulation_steps")
SAVING_FLAGS = ("gradient_checkpointing",)
_IN_WORKER = re.compile(r"Caught \w+ in DataLoader worker process \d+\.\n")
_WORKER_GONE = re.compile(
    r"DataLoader worker \(pid.*?\) (is killed by signal: .*|exited unexpect.*)"
)
_PEER_GONE = re.compile(
    r"[Cc]onnection (closed|reset) by peer|Broken pipe|remote process exit|"
    r"NCCL communicator was aborted"
)
_GPU_IS_FULL = re.compile(
    r"(CUDA|HIP) error: out of memory|ALLOC(ATION)?_FAILED|Cuda failure 2 'out of memory'"
)
"""What CUDA's libraries and the driver say where PyTorch's own allocator was not asked."""
_GPU_TROUBLE = {
    "no kernel image is available": "this PyTorch ({version}) has no code for this GPU: install a"
    " build that has, see https://pytorch.org/get-started",
    "busy or unavailable": "the GPU is busy or may not be used: nvidia-smi says who has it and"
    " whether it is for one process alone",
    "uncorrectable ECC error": "the GPU's memory has an error that it cannot correct: it must be"
    " reset or replaced",
}
_COMPILER = ("torch._dynamo", "torch._inductor")


def failure(problem: BaseException, settings: argparse.Namespace) -> str:
    """Return a line on what a user can act on; nothing where the program itself is at fault."""
    text = str(problem)
    gone = isinstance(problem, (ConnectionError, BrokenExecutor)) or _WORKER_GONE.search(text)
    if gone or _unanswered(problem):
        reason = text.strip() or "it does not answer"
        return (
            f"a loading process has ended ({reason}): most often, memory or /dev/shm did not"
            " suffice; fewer --workers need less of both, and 0 shows what else it was"
        )
    if isinstance(problem, (SettingsError, NotFiniteError, ExportError, RanksDifferError, OSError)):
        return own_words(problem)
    if not isinstance(problem, (MemoryError, RuntimeError)):
        return ""
    if is_out_of_memory(problem):
        return out_of_memory(problem, settings)
    if grouped() and _PEER_GONE.search(text):
        return "another process of this run has ended; what it said above or below is the reason"
    if type(problem).__module__.startswith(_COMPILER):
        # Triton needs a C compiler and Python's headers, which only its first kernel finds missing.
        lines = [line.strip() for line in text.splitlines() if "error: " in line]
        reason = lines[0] if lines else _first_line(text)
        return f"torch.compile failed ({reason}): leave --compile and --cuda_graphs away"
    for phrase, meaning in _GPU_TROUBLE.items():
        if phrase in text:
            return meaning.format(version=torch.__version__)
    return ""


def _unanswered(problem: BaseException) -> bool:
    """Return whether talking to another process raised this: an end of file, no such socket."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = str(trace.tb_frame.f_globals.get("__name__")) if trace else ""
    return module in ("multiprocessing.connection", "multiprocessing.reduction")


def told_by_leader(problem: BaseException) -> bool:
    """Return whether rank 0 has met the same error and says it."""
    return isinstance(problem, (SharedError, RanksDifferError, DivergedError))


def own_words(problem: BaseException) -> str:
    """Return an error's text, without the traceback that a loading process has put before it."""
    text = str(problem)
    if not _IN_WORKER.match(text):
        return text
    return text.strip().splitlines()[-1].partition(": ")[2]


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether a GPU's memory or the host's was not enough."""
    if isinstance(problem, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(problem)
    return "DefaultCPUAllocator: can't allocate memory" in text or bool(_GPU_IS_FULL.search(text))


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def out_of_memory(problem: BaseException, settings: argparse.Namespace) -> str:
    """Return one sentence: what was too much, and which flags of this program make it less."""
    # PyTorch's own advice follows in the same line; what it found comes first.
    first = _first_line(str(problem)).partition(" If reserved but unallocated")[0]
    on_gpu = isinstance(problem, torch.OutOfMemoryError) or _GPU_IS_FULL.search(first)
    where = "the GPU" if on_gpu else "this machine"
    known = {name for name in vars(settings) if hasattr(settings, name)}
    batch = next((name for name in BATCH_FLAGS if name in known), None)
    parts = next((name for name in ACCUMULATION_FLAGS if name in known), None)
    advice = []
    if batch:
        now = getattr(settings, batch)
        advice.append(f"a smaller --{batch}" + (f" than {now}" if now else ""))
    if parts:
        advice.append(f"--{parts} for the same effective batch in smaller parts")
    advice += [f"--{name}" for name in SAVING_FLAGS if name in known]
    hint = f"; try {', '.join(advice)}" if advice else ""
    return f"out of memory on {where}{f' ({first})' if first else ''}{hint}"


class _Output:
    """A stream to which lines may get lost: a full disk, a terminal or reader that is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        try:
            return self._stream.write(text)
        except OSError as problem:
            return self._lost(problem)

    def flush(self) -> None:
        """Write what waits, or let it go."""
        try:
            self._stream.flush()
        except OSError as problem:
            self._lost(problem)

    def _lost(self, problem: OSError) -> int:
        if problem.errno not in LOST_OUTPUT:
            raise problem
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def output_may_be_lost() -> Iterator[None]:
    """Let a run go on inside though what it prints finds no room: its weights are worth more."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Output(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in before:
            _let_go(stream)


def _let_go(stream: TextIO) -> None:
    """Let what found no room go nowhere: for it, the interpreter would end with 120."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def rank_of() -> int:
    """Return which of a launcher's processes this one is."""
    return int(os.environ.get("RANK", "0"))
