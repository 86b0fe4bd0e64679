"""Why a program failed, in a few words, for the row, the toast and the notice of its run.

As a program (`explain`), it prints them for the run in the folder it is given, whose program ended
with the exit code it is given; nothing when no cause is known.
"""

import sys
import time
from pathlib import Path

import msgspec

from runners.diagnosis.explain import explain_run
from runners.diagnosis.verdict import Diagnosis, cause_words
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.live import LiveReport

_TOLD_BY_NO_LINE = frozenset({"host_out_of_memory", "gpu_hardware"})
"""Causes that are known without a line of output.

Others without one only repeat the exit status in other words.
"""
_LONGEST = 160


def cause_of(run: Run, code: int) -> str:
    """Why the program of `run` ended with `code`; empty when that is not known."""
    if run.record is None:
        return ""
    record = msgspec.structs.replace(
        run.record, state=State.FAILED, exit_code=code, ended=time.time()
    )
    ended = msgspec.structs.replace(run, state=State.FAILED, record=record)
    verdict = explain_run(ended)
    if not isinstance(verdict, Diagnosis):
        return ""
    if not verdict.signature and verdict.kind not in _TOLD_BY_NO_LINE:
        return ""
    words = cause_words(verdict, _place(ended))
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _place(run: Run) -> str:
    """`step 812`, or `epoch 7`: the last that it reported; empty when it reported none."""
    report = LiveReport(run)
    report.poll(run, thorough=True)
    progress = report.course.progress(time.time())
    if progress.step is not None:
        return f"{progress.counted.removesuffix('s')} {progress.step:,}"
    return "" if progress.epoch is None else f"epoch {progress.epoch}"


def main() -> None:
    """Print why the run in the folder `argv[1]`, whose program ended with `argv[2]`, failed."""
    folder, code = Path(sys.argv[1]), int(sys.argv[2])
    print(cause_of(read_run(StateDirectory(folder.parent.parent), folder.name), code))
