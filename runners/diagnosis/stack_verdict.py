"""What stacks of several ranks show together: which rank the others wait for. Pure functions."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from runners.diagnosis.stack_parts import PythonThread

_DISTRIBUTED = ("torch/distributed/distributed_c10d", "torch/distributed/nn/", "deepspeed/comm/")
_INNER = frozenset({"wrapper", "wait", "_store_based_barrier", "<lambda>"})
_BACKWARD = "_engine_run_backward"


class RankStack(msgspec.Struct, frozen=True):
    """What one rank was doing: the `place` in its own code, and the `collective` it waits in.

    `how` says by what means that is known, `problem` why it is not; `file` holds the whole.
    """

    label: str
    rank: int | None
    pid: int
    state: str
    channel: str = ""
    how: str = ""
    place: str = ""
    collective: str = ""
    problem: str = ""
    file: str = ""

    @property
    def text(self) -> str:
        """`in all_reduce, train.py:43 in main`; what the kernel says where no stack is known."""
        parts = [f"in {self.collective}" if self.collective else "", self.place]
        return ", ".join(part for part in parts if part) or self.state


def main_thread(threads: Sequence[PythonThread]) -> PythonThread | None:
    """The thread that trains: the main one, else the one that got the signal, else the first."""
    by_name = (thread for thread in threads if thread.name == "MainThread")
    active = (thread for thread in threads if thread.active)
    return next(by_name, None) or next(active, None) or next(iter(threads), None)


def own_place(threads: Sequence[PythonThread]) -> str:
    """The innermost frame of the program's own code: `train.py:43 in main`."""
    thread = main_thread(threads)
    if thread is None or not thread.frames:
        return ""
    own = next((frame for frame in thread.frames if not frame.is_library), thread.frames[0])
    return own.text


def collective_of(threads: Sequence[PythonThread]) -> str:
    """The exchange between ranks that the program is in; empty when in none."""
    thread = main_thread(threads)
    if thread is None:
        return ""
    found = ""
    for frame in thread.frames:
        if any(part in frame.file for part in _DISTRIBUTED) and frame.function not in _INNER:
            found = frame.function
        elif frame.function == _BACKWARD and not found:
            found = "backward"
    return found


def absent_ranks(stacks: Sequence[RankStack]) -> tuple[tuple[int, ...], str]:
    """The ranks that the others wait for, and that in words; nothing when they show none."""
    known = [stack for stack in stacks if stack.rank is not None and stack.how]
    if len(known) < 2:
        return _by_channel(stacks)
    waiting = [stack for stack in known if stack.collective]
    others = [stack for stack in known if not stack.collective]
    if waiting and others and len(others) <= len(waiting):
        operation = Counter(stack.collective for stack in waiting).most_common(1)[0][0]
        absent = ", ".join(stack.label for stack in others[:4])
        waits = f"{len(waiting)} {'others wait' if len(waiting) > 1 else 'other waits'}"
        places = "; ".join(dict.fromkeys(stack.text for stack in others[:4]))
        verb = "has" if len(others) == 1 else "have"
        text = f"{absent} {verb} not come to {operation}, in which {waits}: {places}"
        return _ranks(others), text
    if len(waiting) == len(known):
        return _by_place(known)
    return (), ""


def _by_place(known: Sequence[RankStack]) -> tuple[tuple[int, ...], str]:
    """All wait, but not all for the same: the fewer are on another branch."""
    places = Counter((stack.collective, stack.place) for stack in known).most_common()
    if len(places) == 1:
        operation, place = places[0][0]
        many = f"all {len(known)} ranks wait in {operation}, {place}"
        return (), f"{many}: the network, or a rank on another machine"
    if places[0][1] == places[-1][1]:
        return (), ""
    usual = places[0][0]
    strays = [stack for stack in known if (stack.collective, stack.place) != usual]
    text = "; ".join(f"{stack.label} is {stack.text}" for stack in strays[:4])
    return _ranks(strays), f"{text}; the others are in {usual[0]}, {usual[1]}"


def _by_channel(stacks: Sequence[RankStack]) -> tuple[tuple[int, ...], str]:
    """Without stacks: one rank that sleeps elsewhere in the kernel than all the others."""
    ranks = [stack for stack in stacks if stack.rank is not None]
    channels = Counter(stack.state for stack in ranks).most_common()
    if len(ranks) < 3 or len(channels) != 2 or channels[1][1] != 1:
        return (), ""
    stray = next(stack for stack in ranks if stack.state == channels[1][0])
    text = f"{stray.label} {stray.state}, while the others: {channels[0][0]}"
    return _ranks([stray]), f"{text} (no stacks are known)"


def _ranks(stacks: Sequence[RankStack]) -> tuple[int, ...]:
    return tuple(stack.rank for stack in stacks if stack.rank is not None)
