"""Why a program failed: the known cause's class and a few words, for what is recorded of its run.

As a program (`explain`), it prints them as JSON for the run in the folder it is given, whose
program ended with the exit code it is given; nothing when no cause is known.
"""

import json
import sys
import time

import msgspec

from runners.diagnosis.diagnosis import REFUSED_SETTINGS
from runners.diagnosis.explain import explain_run
from runners.diagnosis.full_disk import KIND, find_full_disk
from runners.diagnosis.own_ends import OWN_TIME_LIMIT
from runners.diagnosis.verdict import Diagnosis, cause_text
from runners.model.endings import Ending
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from runners.watch.metrics.live import LiveReport

_WITHOUT_A_LINE = frozenset(
    {"host_out_of_memory", "gpu_hardware", REFUSED_SETTINGS, OWN_TIME_LIMIT}
)
"""Causes that are known without a signature of the output.

Others without one only repeat the exit status in other words.
"""
_LONGEST = 160


def cause_of(
    run: Run, code: int, ending: Ending | None = None
) -> dict[str, str | int | None] | None:
    """Why the program of `run` ended with `code`, by class, in words, and in which rank.

    None when it is not known.
    """
    if run.record is None:
        return None
    record = msgspec.structs.replace(
        run.record, state=State.FAILED, exit_code=code, ended=time.time()
    )
    # Without an ending it ends now: disks are looked at as they are.
    known = ending if ending and ending.get("memory_kills") else None
    ended = msgspec.structs.replace(run, state=State.FAILED, record=record, ending=known)
    verdict = explain_run(ended)
    if not isinstance(verdict, Diagnosis):
        return None
    if not verdict.signature and verdict.kind not in _WITHOUT_A_LINE:
        return None
    text = cause_text(verdict, _place(ended))
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    cause: dict[str, str | int | None] = {"class": verdict.kind, "summary": text}
    if verdict.kind == KIND and (disk := find_full_disk(ended, verdict.line)):
        cause["disk"] = disk
    return {**cause, "rank": verdict.rank, "lasting": verdict.is_lasting}


def _place(run: Run) -> str:
    """`step 812`, or `epoch 7`: the last that it reported; empty when it reported none."""
    report = LiveReport(run)
    report.poll(run, thorough=True)
    progress = report.course.progress(time.time())
    if progress.step is not None:
        return f"{progress.counted.removesuffix('s')} {progress.step:,}"
    return "" if progress.epoch is None else f"epoch {progress.epoch}"


def main() -> None:
    """Print why the run in the folder `argv[1]`, whose program ended with `argv[2]`, failed.

    `argv[3]` is what its supervisor knows of its end, as JSON.
    """
    directory, code = RunDirectory.at(sys.argv[1]), int(sys.argv[2])
    cause = cause_of(read_run(directory.home, directory.id), code, json.loads(sys.argv[3]))
    if cause is not None:
        print(json.dumps(cause))
