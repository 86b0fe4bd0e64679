"""After a run's end: how it ended, and whether its GPUs' memory became free."""

import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runners.host import helpers
from runners.host.files import read_json, read_tail
from runners.host.memory_group import group_kills, memory_limit
from runners.host.procfs import memory_kills
from runners.host.shells import SHELLS
from runners.host.slurm_job import job_memory_kills, slurm_job
from runners.model.endings import Ending, EndingCause, JobEnd, signal_of
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, PlanFields, intent_fields
from runners.state.vanished import asked_ending, last_line, vanished_ending

_EXPLAINED_WITHIN_S = 15.0
"""A second on a quiet machine with a cold disk: the verdict itself takes 50 ms."""
_FREED_WITHIN_S = 8.0
_POLL_S = 0.25
_REPORT_BYTES = 64 * 1024
_LONGEST_ERROR = 200
# Compiled where they are needed, at a run's end: a supervisor lives without them for days.
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]"
_ERROR = (
    # torchrun's name of the rank, and before it the one that our copy of a rank's output has.
    r"^(?:\[(?:[Rr]ank|RANK|default|worker|GPU)[ :=]{0,2}0*(?P<rank>\d+)\]:? ?){0,2}"
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Fault|Failure)"
    r"|OutOfMemory\w*|AcceleratorError))(?P<message>(?:: .*)?)$"
)
_SHELL_AMONG = 8
"""Arguments: it stands behind what a plan puts before a command."""
_TRACEBACK = "Traceback (most recent call last)"
_REPORT_LINES, _NEAR_END = 40, 5
"""Lines that may follow torchrun's error, which begins a report, and any other."""
_SURVIVED = ("Exception ignored", "Exception in thread", "Error in atexit")
"""What Python prints before the traceback of what a program survives."""
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "KeyboardInterrupt")
"""What a launcher raises because its child failed."""
_ROOT_CAUSE = r"(?s)Root Cause \(first observed failure\).*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)"


def judge_ending(
    run: RunDirectory,
    intent: IntentFields | None,
    code: int | None,
    cgroup: str = "",
    kills_before: int | None = None,
) -> tuple[State, Ending]:
    """How a run whose program ended with `code` ended, and why; None: the code is not known.

    `intent` is the stop that was asked for, if there was one, `cgroup` the run's own control group;
    where it has none, `kills_before` is what ours had counted when the program began.
    """
    name = signal_of(code)
    if intent is not None:
        # A stop that was asked for is no failure, whatever code the program makes of it.
        ending = asked_ending(intent)
        if name:
            ending["signal"] = name
        return State.STOPPED, ending
    if code is None:
        # Neither the waiter nor the kernel could tell: it may have succeeded or not.
        return vanished_ending(run)
    if code == 0:
        return State.DONE, {"cause": EndingCause.COMPLETED}
    ending = Ending(cause=EndingCause.FAILED)
    if name:
        ending = Ending(cause=EndingCause.SIGNALLED, signal=name)
    _add_memory_kills(ending, cgroup, kills_before)
    _add_cause(run, code, ending)
    return State.FAILED, ending


def _add_memory_kills(ending: Ending, cgroup: str, before: int | None) -> None:
    """Add that the kernel killed for want of memory: the run's scope, its Slurm job or ours knows.

    In a container ours is that of all its runs: what is counted while this one lived.
    """
    # While this process lives, so does its control group.
    job, is_killed = slurm_job(), ending.get("signal") == "SIGKILL"
    if job is not None and (kills := job_memory_kills(job.id)):
        ending["memory_kills"] = kills
        if is_killed:
            ending["cause"] = EndingCause.SLURM
            ending["job"], ending["job_end"] = job.id, JobEnd.OUT_OF_MEMORY
        return
    kills = memory_kills(cgroup)
    if kills is None and before is not None:
        kills = (group_kills() or before) - before
    if kills:
        ending["memory_kills"] = kills
        if (limit := memory_limit()) is not None:
            ending["memory_limit"] = limit.limit


def judge_unstarted(run: RunDirectory, has_started: bool) -> tuple[State, Ending]:
    """How a run ends that was stopped while it waited; `has_started`: for a later attempt."""
    intent = read_json(run.stop)
    ending = asked_ending(intent_fields(intent))
    if not intent:
        del ending["by"]  # asked by a signal, which does not say whose it is
    if has_started:
        return State.STOPPED, ending
    if ending["cause"] is EndingCause.STOPPED:
        ending["cause"] = EndingCause.CANCELLED
    return State.CANCELLED, ending


def _add_cause(run: RunDirectory, code: int, ending: Ending) -> None:
    """Add why the program failed: what the diagnosis says in time, and the output itself."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        _, output = helpers.run(
            "explain", run.path, str(code), json.dumps(ending), within_s=_EXPLAINED_WITHIN_S
        )
        answer = json.loads(output)
        ending["diagnosis"], ending["summary"] = str(answer["class"]), str(answer["summary"])
        if answer.get("disk"):
            ending["disk"] = str(answer["disk"])
        if answer["lasting"]:
            ending["lasting"] = True
        if answer["rank"] is not None:
            ending["rank"] = int(answer["rank"])
    error, rank = last_error(run.output)
    if error:
        from runners.model.masking import mask_text  # most runs do not fail

        ending["error"] = mask_text(error)
    failed = failed_rank(run.output)
    if failed is not None and "rank" not in ending:
        ending["rank"] = failed[0]
        # Its exit code says no more than its exception does.
        if not error or rank != failed[0]:
            ending["rank_code"] = failed[1]
    is_told = error or failed or ending.get("summary") or "signal" in ending
    if not is_told and (line := last_line(run.output)):
        ending["line"] = line


def failed_rank(output: Path) -> tuple[int, int] | None:
    """Which rank torchrun says failed first, and its exit code; None without such a report.

    The report's form is torchrun's own
    (torch.distributed.elastic.multiprocessing.errors, "Root Cause").
    """
    text = read_tail(output, _REPORT_BYTES).decode("utf-8", "replace")
    begin = max(0, text.rfind("Root Cause (first observed failure)"))
    found = re.search(_ROOT_CAUSE, text[begin:])
    if found is None:
        return None
    code = int(found[2])
    return int(found[1]), 128 - code if code < 0 else code


def last_error(output: Path) -> tuple[str, int | None]:
    """The line at the output's end that says why the program failed, as type and message.

    Where several ranks failed, that of the first one, and which rank that is. Empty when there is
    none, or only what others said, who failed because the first one did.
    """
    text = re.sub(_ESCAPES, "", read_tail(output, _REPORT_BYTES).decode("utf-8", "replace"))
    failed = failed_rank(output)
    rank = "" if failed is None else str(failed[0])
    errors: list[tuple[str, str]] = []
    for line in text.splitlines():
        matched = re.match(_ERROR, line)
        if matched is not None and not matched["type"].endswith(_WRAPPERS):
            errors.append((matched["rank"] or "", f"{matched['type']}{matched['message']}".strip()))
    if not errors:
        return "", None
    named = {of_rank for of_rank, _ in errors}
    if rank not in named:
        # The others lose their connection to it. What names no rank may be its own.
        rank = "" if failed is not None else errors[0][0]
        if rank not in named or (failed is not None and len(named) > 1 and failed[0] != 0):
            return "", None
    message = [message for of_rank, message in errors if of_rank == rank][-1]
    if len(message) > _LONGEST_ERROR:
        message = f"{message[: _LONGEST_ERROR - 1]}…"
    return message, int(rank) if rank else None


def add_doubts(
    ending: Ending, run: RunDirectory, argv: Sequence[str], left_running: list[str]
) -> None:
    """Add what makes it doubtful that a program did its work that exited with 0.

    A shell's exit code is that of its last command, `tee` or `echo`, whatever became of others.
    """
    names = [os.path.basename(argument) for argument in argv[:_SHELL_AMONG]]
    if any(name in SHELLS or name.endswith(".sh") for name in names):
        error = hidden_error(run.output)
        if error:
            ending["error"] = error
    if left_running:
        ending["left"] = left_running


def hidden_error(output: Path) -> str:
    """The error that ended a Python program shortly before its shell; empty without one."""
    text = re.sub(_ESCAPES, "", read_tail(output, _REPORT_BYTES).decode("utf-8", "replace"))
    lines = [line for line in text.splitlines() if line.strip()]
    begins = [at for at, line in enumerate(lines) if _TRACEBACK in line]
    if not begins or lines[max(0, begins[-1] - 1)].startswith(_SURVIVED):
        return ""
    of_error = [found for line in lines[begins[-1] :] if (found := re.match(_ERROR, line))]
    kind = of_error[0]["type"] if of_error else "KeyboardInterrupt"
    after = len(lines) - 1 - lines.index(of_error[0].string, begins[-1]) if of_error else 0
    is_launcher = kind.endswith("ChildFailedError")
    if kind.endswith("KeyboardInterrupt") or after > (_REPORT_LINES if is_launcher else _NEAR_END):
        return ""
    from runners.model.masking import mask_text  # most shells do not fail

    error = last_error(output)[0] if is_launcher else of_error[0].string.strip()
    return mask_text(error)[:_LONGEST_ERROR]


def still_held(run: RunDirectory, plan: PlanFields) -> list[tuple[int | None, int]]:
    """What of the run still holds its GPUs' memory: GPU and pid.

    Empty when it became free or cannot be known. Waits for a reading that the sampler took after
    the run's last process had gone.
    """
    uuids = {gpu.get("uuid") for gpu in plan["gpus"] if not gpu.get("simulated")}
    if not uuids:
        return []
    ended = time.time()
    deadline = time.monotonic() + _FREED_WITHIN_S
    while True:
        reading = read_json(run.home.gpu_reading) or {}
        holders: list[tuple[int | None, int]] = [
            (gpu["index"], process["pid"])
            for gpu in reading.get("gpus", ())
            for process in gpu.get("processes", ())
            if gpu["uuid"] in uuids and process.get("run") == run.id
        ]
        # An older reading may still show processes that have ended since.
        fresh = float(reading.get("time", 0.0)) > ended
        if (fresh and not holders) or time.monotonic() > deadline:
            return holders if fresh else []
        if not reading or ended - float(reading.get("time", 0.0)) > _FREED_WITHIN_S:
            return []  # the sampler does not run: nothing can be known
        time.sleep(_POLL_S)
