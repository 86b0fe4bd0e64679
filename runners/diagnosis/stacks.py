"""What every rank of a run is doing at one instant, saved in the run's folder.

As a program (`stacks`), it does so for the run in the folder it is given, for a supervisor that is
about to kill it. What several ranks show together is which rank the others wait for.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from runners.diagnosis.stack_parts import (
    Frame,
    PythonStacks,
    PythonThread,
    abort_with_stacks,
    ask_py_spy,
    ask_trainer,
    kernel_lines,
)
from runners.host.clock import local_time
from runners.host.files import is_file, modified_at, names_in, read_text, replace
from runners.host.procfs import command_of
from runners.state.decoding import read
from runners.state.layout import RunDirectory
from runners.state.rank_processes import ProcessState, RankFinder, RankProcess, state_of

_DISTRIBUTED = ("torch/distributed/distributed_c10d", "torch/distributed/nn/", "deepspeed/comm/")
_INNER = frozenset({"wrapper", "wait", "_store_based_barrier", "<lambda>"})
_BACKWARD = "_engine_run_backward"
WITHIN_S = 6.0
"""Seconds that asking all ranks may take."""
ALL_RANKS = "all.txt"
"""The file in a folder of stacks that has those of every rank."""
_DUMP = "stacks.json"
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d{1,9}|\?\?\?) in (?P<function>.+)$')
_THREAD = re.compile(r"^(?P<current>Current thread|Thread) (?P<name>0x\w+)")


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


class StackDump(msgspec.Struct, frozen=True):
    """The stacks of all ranks at `time` (unix seconds), why they were taken, and what they show.

    `absent` are the ranks that the others wait for, `verdict` that in words; both may be empty.
    """

    time: float
    why: str
    folder: str
    ranks: tuple[RankStack, ...]
    absent: tuple[int, ...] = ()
    verdict: str = ""


def take_stacks(run: RunDirectory, why: str, last: bool = False) -> StackDump:
    """Ask every rank of `run` at once and save what they say; `last` for a run that is killed next.

    No rank is stopped for longer than py-spy needs to read it. OSError when nothing can be saved.
    """
    now = time.time()
    ranks = RankFinder(run).find()
    before = newest_stacks(run.path)
    if last and before is not None and not any(rank.rank is not None for rank in ranks):
        return before  # a launcher alone is left: what its ranks did is worth more
    folder = run.path / "stacks" / local_time(now, "%Y%m%d-%H%M%S")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ThreadPoolExecutor(max(1, len(ranks))) as pool:
        answers = list(pool.map(lambda rank: _ask(run, rank, last), ranks))
    stacks = tuple(stack for stack, _ in answers)
    absent, verdict = absent_ranks(stacks)
    for stack, text in answers:
        replace(folder / stack.file, text.encode("utf-8", "replace"), sync=False)
    summary = "".join(f"{stack.label}: {stack.text}\n" for stack in stacks)
    whole = "\n".join([f"{verdict}\n" if verdict else "", summary, *(text for _, text in answers)])
    replace(folder / ALL_RANKS, whole.lstrip().encode("utf-8", "replace"), sync=False)
    dump = StackDump(now, why, str(folder), stacks, absent, verdict)
    replace(folder / _DUMP, msgspec.json.encode(dump), sync=False)
    return dump


def newest_stacks(run: Path) -> StackDump | None:
    """The newest stacks saved in a run's folder; None when there are none."""
    # Not by their names, which have a local time: that begins an hour again, or in another zone.
    dumps = [run / "stacks" / name / _DUMP for name in names_in(run / "stacks")]
    found = (read(path, StackDump) for path in sorted(dumps, key=modified_at)[::-1])
    return next(filter(None, found), None)


def stack_text(dump: StackDump, stack: RankStack) -> str:
    """The saved text of one rank; empty when it is gone."""
    return read_text(Path(dump.folder) / stack.file)


def parse_faulthandler(text: str) -> tuple[PythonThread, ...]:
    """Threads in what Python's faulthandler wrote; the one that got the signal is active."""
    threads: list[PythonThread] = []
    frames: list[Frame] = []
    for line in text.splitlines():
        head, frame = _THREAD.match(line), _FRAME.match(line)
        if head is not None:
            frames = []
            threads.append(PythonThread(head["name"], (), head["current"] != "Thread"))
        elif frame is not None and threads:
            number = int(frame["line"]) if frame["line"].isdecimal() else 0
            frames.append(Frame(frame["function"], frame["file"], number))
            threads[-1] = msgspec.structs.replace(threads[-1], frames=tuple(frames))
    return tuple(thread for thread in threads if thread.frames)


def _ask(run: RunDirectory, rank: RankProcess, last: bool) -> tuple[RankStack, str]:
    """What one rank says: in short, and as the text that is saved."""
    state = state_of(rank.pid)
    lines = kernel_lines(rank.pid)
    stacks, how = ask_py_spy(rank.pid, WITHIN_S), "py-spy"
    problems = [stacks.problem]
    if not stacks.threads:
        stacks, how = ask_trainer(run.path, rank.pid, rank.ticks), "its own handler"
        problems.append(stacks.problem)
    if last and not (stacks.threads or stacks.text):
        output = _stderr_of(rank.pid) or run.output
        stacks, how = abort_with_stacks(output, rank.pid, rank.ticks), "SIGABRT"
        problems.append(stacks.problem)
    threads = stacks.threads or parse_faulthandler(stacks.text)
    found = RankStack(
        label=rank.label,
        rank=rank.rank,
        pid=rank.pid,
        state=state.text if state is not None else "has ended",
        channel=state.channel if state is not None else "",
        how=how if threads or stacks.text else "",
        place=own_place(threads),
        collective=collective_of(threads),
        problem="" if threads or stacks.text else "; ".join(filter(None, problems)),
        file="program.txt" if rank.rank is None else f"rank_{rank.rank}.txt",
    )
    return found, _text(found, state, stacks, lines)


def _stderr_of(pid: int) -> Path | None:
    """The plain file that process `pid` writes its errors to, if it is one."""
    try:
        path = Path(f"/proc/{pid}/fd/2").readlink()
    except OSError:
        return None
    return path if is_file(path) else None


def _text(
    stack: RankStack, state: ProcessState | None, stacks: PythonStacks, lines: list[str]
) -> str:
    """What is saved of one rank, for people."""
    command = " ".join(command_of(stack.pid))
    head = [f"{stack.label}, pid {stack.pid}: {stack.state}", f"command: {command}"]
    if state is not None:
        head.append(f"threads: {state.threads}, CPU time: {state.cpu_s:.1f} s")
    if stack.problem:
        head.append(f"no Python stack: {stack.problem}")
    body = [stacks.text.rstrip()] if stacks.text else []
    for thread in stacks.threads:
        body.append(f"\nThread {thread.name}{' (active)' if thread.active else ''}")
        body += [f"  {frame.function} ({frame.file}:{frame.line})" for frame in thread.frames]
    tail = ["", "threads as the kernel sees them (id, name, state, wait channel):", *lines]
    return "\n".join([*head, *body, *tail]) + "\n"


def main() -> None:
    """Save the stacks of the run in the folder `argv[1]`, killed next because of `argv[2]`."""
    take_stacks(RunDirectory.at(sys.argv[1]), sys.argv[2], last=True)
