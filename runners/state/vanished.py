"""How a run ended when nobody saw its program exit: by what the program itself has left.

Its waiter was killed, and its supervisor too, so there is no exit status. Standard library only:
the supervisor imports it.
"""

import json
import re
from pathlib import Path

from runners.host.files import modified_at, read_json, read_tail
from runners.model.endings import Ending, EndingCause
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, intent_fields

_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 200
_NO_NEWS = r"\W*$|make(?:\[\d+\])?: |srun: error: |npm ERR! |ERROR conda\.cli\."
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"


def vanished_ending(run: RunDirectory) -> tuple[State, Ending]:
    """How a run is recorded whose program is gone, and whose exit status nobody has.

    A stop that was asked for comes first, then the exit code that the program announced as its last
    event, then that it wrote something before it ended. Lost is what left no trace at all.
    """
    intent = read_json(run.stop)
    if intent is not None:
        return State.STOPPED, asked_ending(intent_fields(intent))
    code = announced_code(run)
    if code is not None:
        cause = EndingCause.FAILED if code else EndingCause.COMPLETED
        return State.FAILED if code else State.DONE, {"cause": cause, "announced": code}
    line = last_line(run.output)
    if line:
        return State.UNSEEN, {"cause": EndingCause.UNSEEN, "line": line}
    return State.LOST, {"cause": EndingCause.UNKNOWN}


def asked_ending(intent: IntentFields) -> Ending:
    """What is recorded of a run that ends by this stop."""
    return {**intent["ending"], "by": intent["by"], "forced": intent["force"]}


def announced_code(run: RunDirectory) -> int | None:
    """The exit code in the `end` event that the program of this attempt wrote last, or None.

    Only the program itself counts: one of several below a shell or torchrun decides nothing.
    """
    lines = read_tail(run.events, _TAIL_BYTES).splitlines()
    try:
        event = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("type") != "end":
        return None
    code, pid, time = event.get("code"), event.get("pid"), event.get("time")
    if type(code) is not int or not 0 <= code <= 255 or not isinstance(time, (int, float)):
        return None
    # The events of all attempts are in one file: this one's program noted its pid before.
    is_own = pid is not None and pid == run.leader_pid() and time >= modified_at(run.leader)
    return code if is_own else None


def last_line(output: Path) -> str:
    """The last line with something in it that this attempt wrote, with no secret in it."""
    return last_line_of(read_tail(output, _TAIL_BYTES))


def last_line_of(data: bytes) -> str:
    """The last line of a program's output that says something, with no secret in it.

    What only rules off, or reports that a child failed, is taken where there is nothing else.
    """
    text = re.sub(_ESCAPES, "", data[-_TAIL_BYTES:].decode("utf-8", "replace"))
    lines = ["".join(char if char.isprintable() else " " for char in line).strip()
             for line in re.split(r"[\r\n]+", text)]  # fmt: skip
    lines = [line for line in lines if line]
    shown = next((line for line in reversed(lines) if not re.match(_NO_NEWS, line)), "")
    if not lines:
        return ""
    from runners.model.masking import mask_text  # most ends need no line

    shown = mask_text(shown or lines[-1])
    return f"{shown[: _LONGEST_LINE - 1]}…" if len(shown) > _LONGEST_LINE else shown
