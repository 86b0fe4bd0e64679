"""After a run's end: how it ended in words, and whether its GPUs' memory became free.

Standard library only: the supervisor imports it.
"""

import re
import signal
import time
from pathlib import Path

from runners.host import helpers
from runners.host.files import read_json
from runners.host.tail import read_tail
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, PlanFields

_EXPLAINED_WITHIN_S = 15.0
"""A second on a quiet machine with a cold disk: the verdict itself takes 50 ms."""
_FREED_WITHIN_S = 8.0
_POLL_S = 0.25
_REPORT_BYTES = 64 * 1024
_LONGEST_ERROR = 200
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ERROR = re.compile(
    r"^(?:\[(?:[Rr]ank|RANK|default|worker|GPU)[ :=]{0,2}0*(?P<rank>\d+)\]:? ?)?"
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Fault|Failure)"
    r"|OutOfMemory\w*|AcceleratorError))(?P<message>(?:: .*)?)$"
)
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "KeyboardInterrupt")
"""What a launcher raises because its child failed."""
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\).*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)", re.DOTALL
)


def judge_ending(
    run: RunDirectory, intent: IntentFields | None, code: int | None
) -> tuple[State, str]:
    """How a run whose program ended with `code` ended, and why; None: the code is not known.

    `intent` is the stop that was asked for, if there was one.
    """
    if intent is not None:
        # A stop that was asked for is no failure, whatever code the program makes of it.
        did = "killed" if intent["force"] and code == 128 + signal.SIGKILL else "stopped"
        return State.STOPPED, intent["reason"] or f"{did} by {intent['by']}"
    if code is None:
        # Neither the waiter nor the kernel could tell: it may have succeeded or not.
        return State.LOST, "ended, exit code unknown"
    if code == 0:
        return State.DONE, ""
    cause = known_cause(run, code)
    reasons = (last_error(run.output), failed_rank(run.output), explain_exit(code))
    return State.FAILED, cause or "; ".join(filter(None, reasons))


def known_cause(run: RunDirectory, code: int) -> str:
    """Why the program failed, in a few words; empty when that is not known, or not in time."""
    try:
        _, cause = helpers.run("explain", run.path, str(code), within_s=_EXPLAINED_WITHIN_S)
    except OSError:
        return ""
    return cause.strip()


def explain_exit(code: int) -> str:
    """An exit code in words."""
    # Shells, and the waiter with them, report a signal as 128 plus its number.
    if code > 128:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            return f"exit code {code}"
        # The kernel's out-of-memory killer uses SIGKILL, which no program can report.
        hint = " (out of memory, or killed by somebody)" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"
    hints = {126: " (not executable)", 127: " (command not found)"}
    return f"exit code {code}{hints.get(code, '')}"


def failed_rank(output: Path) -> str:
    """Which rank torchrun says failed first, and how, in words; empty without such a report.

    The report's form is torchrun's own
    (torch.distributed.elastic.multiprocessing.errors, "Root Cause").
    """
    text = read_tail(output, _REPORT_BYTES).decode("utf-8", "replace")
    found = _ROOT_CAUSE.search(text[max(0, text.rfind("Root Cause (first observed failure)")) :])
    if found is None:
        return ""
    rank, code = found[1], int(found[2])
    return f"rank {rank} failed first: {explain_exit(128 - code if code < 0 else code)}"


def last_error(output: Path) -> str:
    """The line at the output's end that says why the program failed, as type and message.

    Where several ranks failed, that of the first one. Empty when there is none.
    """
    text = _ESCAPES.sub("", read_tail(output, _REPORT_BYTES).decode("utf-8", "replace"))
    report = text.rfind("Root Cause (first observed failure)")
    found = _ROOT_CAUSE.search(text[max(0, report) :])
    rank = found[1] if found is not None else ""
    errors: list[tuple[str, str]] = []
    for line in text.splitlines():
        matched = _ERROR.match(line)
        if matched is not None and not matched["type"].endswith(_WRAPPERS):
            errors.append((matched["rank"] or "", f"{matched['type']}{matched['message']}".strip()))
    if not errors:
        return ""
    # The others fail because the first one did: they lose their connection to it.
    rank = rank if any(who == rank for who, _ in errors) else errors[0][0]
    chosen = [words for who, words in errors if who == rank]
    words = chosen[-1]
    return words if len(words) <= _LONGEST_ERROR else f"{words[: _LONGEST_ERROR - 1]}…"


def still_held(run: RunDirectory, plan: PlanFields) -> list[str]:
    """What of the run still holds its GPUs' memory, in words.

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
        holders = [
            f"GPU {gpu['index']}: pid {process['pid']}"
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
