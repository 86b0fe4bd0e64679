"""A machine that lies in every field of every frame, and one that greets and then says nothing."""

import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.places.ssh import connection, frames
from runners.places.ssh.link import Link, LinkState, Subscription
from runners.places.ssh.machine import LinkedHost
from runners.places.ssh.node_groups import NodeRun
from runners.places.ssh.node_watch import _Watched
from runners.places.ssh.output_mirror import MirroredLog
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.remote_request import AgentQuestion, RemoteRequest
from runners.places.ssh.snapshot_updates import rows_of
from runners.places.ssh.ssh import Ssh, Trouble
from tests.process.conftest import CommandLine
from tests.remote.lying import LyingMachine, changed, paths_of
from tests.remote.test_lying_machine import BAD, HELLO, RUN, TREE, evil, outside
from tests.support import eventually, make_run
from tui.panel.widgets.metrics.curve_source import FollowedCurves

__all__ = ["evil"]

CURVE = {
    "of": 0,
    "name": "loss",
    "keep": 0,
    "count": 1,
    "source": "",
    "unit": "",
    "simulated": True,
    "also": ("loss",),
    "stages": [[0.0, "stage 1/3"]],
}
POINT = array("d", [1.0, 1.0, 2.0, 0.5]).tobytes().decode("latin-1")
RUN_TREE = msgspec.to_builtins(msgspec.structs.replace(make_run(), id=RUN))
COMMON = {"id": None, "bytes": 0, "error": None, "hint": "", "code": 1}
HELLO_WHOLE = {**HELLO, "host": "h", "user": "u", "home": "/h"}

SAMPLES: dict[type[msgspec.Struct], dict[str, Any]] = {
    frames.AgentFrame: COMMON,
    frames.Hello: HELLO_WHOLE,
    frames.CommandFrame: {**COMMON, "stream": 1, "exit": 0},
    frames.WatchFrame: {**COMMON, "snapshot": TREE, "changes": None, "same": 0},
    frames.OutputFrame: {**COMMON, "run": RUN, "at": 0, "inode": 7, "skipped": 0, "ended": False},
    frames.CurvePart: CURVE,
    frames.CurvesFrame: {
        **COMMON,
        "anew": False,
        "runs": [RUN_TREE],
        "curves": [CURVE],
        "settings": {"lr": 1.0},
        "notes": ["a note"],
        "ended": False,
    },
    frames.OlderAnswer: {"runs": [TREE["runs"][RUN]], "left": 0},
    frames.FoundAnswer: {"found": {"a": 1}},
    frames.NodeEnding: {
        "state": "failed",
        "reason": "why",
        "diagnosis": "oom",
        "ended": 9.0,
        "rank": 1,
    },
    frames.EndAnswer: {"asked": True},
    frames.QuietAnswer: {"quiet_s": 3.0},
    frames._Withdrawn: {"runs": [RUN]},
    frames.WithdrawnAnswer: {"found": {"runs": [RUN]}},
    frames.ListeningFrame: {**COMMON, "listening": ["10.0.0.1"], "port": 29500},
    frames.ReachAnswer: {"reached": "10.0.0.1", "why": ""},
}
"""One honest message of each kind."""


def test_there_is_a_sample_of_every_frame_with_every_field() -> None:
    kinds = {
        kind
        for kind in vars(frames).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert kinds == SAMPLES.keys()
    for kind, sample in SAMPLES.items():
        assert set(kind.__struct_fields__) == sample.keys(), kind.__name__
        frames.decoded(sample, kind)


def _question(answers: list[object]) -> Subscription:
    def take(answer: frames.OlderAnswer | None, problem: str) -> None:
        if answer is not None:
            rows_of(answer.runs)
        answers.append(answer)

    return AgentQuestion({"do": "older"}, frames.OlderAnswer, take)


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_every_field_may_lie_and_no_number_is_beyond_bounds(
    kind: type[msgspec.Struct], tmp_path: Path
) -> None:
    takers: dict[type[msgspec.Struct], Callable[[], Subscription]] = {
        frames.CurvesFrame: lambda: FollowedCurves(RUN, lambda: None),
        frames.OutputFrame: lambda: MirroredLog(tmp_path / "log", RUN, "evil"),
        frames.OlderAnswer: lambda: _question([]),
        frames.EndAnswer: lambda: AgentQuestion({"do": "end"}, frames.EndAnswer, lambda *_: None),
    }
    for path in paths_of(SAMPLES[kind]):
        for lie in BAD:
            fields = changed(SAMPLES[kind], path, lie)
            is_answer = not issubclass(kind, frames.AgentFrame)
            message = LinkMessage(
                {"answer": fields} if is_answer else fields, POINT.encode("latin-1")
            )
            try:
                frames.check_frame(message.fields)
                frames.decoded(fields, kind)
                if kind in takers:
                    takers[kind]().take(message)
            except ValueError:
                continue
    assert not [path for path in tmp_path.iterdir() if path.name != "log"]


def _wrong(kind: type[msgspec.Struct], field: str) -> Any:
    """Something that the field is not."""
    return [1] if isinstance(SAMPLES[kind][field], dict) or field in ("snapshot", "changes") else {}


LINKED: dict[type[msgspec.Struct], tuple[str, Callable[[LinkedHost, Path], object]]] = {
    frames.Hello: ("hello", lambda host, folder: None),
    frames.CommandFrame: ("command", lambda host, folder: None),
    frames.WatchFrame: ("watch", lambda host, folder: None),
    frames.OutputFrame: ("follow", lambda host, folder: MirroredLog(folder / "log", RUN, "evil")),
    frames.CurvesFrame: ("curves", lambda host, folder: FollowedCurves(RUN, lambda: None)),
    frames.OlderAnswer: ("older", lambda host, folder: _question([])),
    frames.FoundAnswer: ("ask", lambda host, folder: _ask(host)),
    frames.NodeEnding: ("ending", lambda host, folder: _Watched(host.link.ssh, NODE)),
    frames.EndAnswer: (
        "end",
        lambda host, folder: AgentQuestion({"do": "end"}, frames.EndAnswer, lambda *_: None),
    ),
}
"""What of a link each frame answers, and who asks for it."""

NODE = NodeRun("evil", RUN)


@pytest.mark.parametrize("kind", LINKED, ids=lambda kind: kind.__name__)
def test_a_lie_in_any_field_closes_the_line_and_nothing_else(
    evil: LyingMachine,
    line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[msgspec.Struct],
) -> None:
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda error: died.append(str(error.exc_value)))
    before = outside(line)
    what, begin = LINKED[kind]
    for field in kind.__struct_fields__:
        if field in ("id", "bytes"):  # of the message itself: it would be another one's
            continue
        fields = {**SAMPLES[kind], field: _wrong(kind, field)}
        message = {name: v for name, v in fields.items() if name not in COMMON or name == field}
        is_answer = not issubclass(kind, frames.AgentFrame)
        sent: Any = [[{"answer": message} if is_answer else message, ""]]
        evil.say(hello=[[{"answer": HELLO}, ""]], watch=[], command={"": []})
        evil.say(**{what: {"": sent} if what == "command" else sent})
        _is_closed(evil, tmp_path, what, begin, field)
    assert not died
    assert outside(line) == before


def _is_closed(
    evil: LyingMachine,
    folder: Path,
    what: str,
    begin: Callable[[LinkedHost, Path], object],
    field: str,
) -> None:
    """Have the machine reached, and see it closed for what it says."""
    host = LinkedHost(Ssh(evil.registry, evil.host), folder / "mirror", lambda: None)
    orders: list[RemoteRequest] = []
    try:
        subscription: Any = begin(host, folder)
        if subscription is not None:
            host.link.subscribe(subscription)
        if what == "command":
            eventually(lambda: host.is_reached)
            host.link.order(RemoteRequest(["stop", RUN], "/", orders.append))
            eventually(lambda: len(orders) == 1)
            assert orders[0].problem
        eventually(lambda: host.is_down, what=f"{what}.{field} closing the line")
        assert host.status.trouble is Trouble.NOT_UNDERSTOOD, (what, field)
        assert host.status.retry_at is not None and host.link._thread.is_alive()
        host.link.order(RemoteRequest(["launch", RUN], "/", orders.append))
        assert "nothing was done" in orders[-1].problem
    finally:
        host.stop()


def _ask(host: LinkedHost) -> None:
    host.place.ask("view", [RUN], lambda found, problem: None)


def test_a_machine_that_greets_and_answers_nothing_is_not_reached(
    evil: LyingMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWERS_WITHIN_S", 0.5)
    evil.say(hello=[[{"answer": HELLO}, ""]], watch=[], command={"": []})
    states: list[LinkState] = []
    host = LinkedHost(Ssh(evil.registry, evil.host), tmp_path / "mirror", lambda: None)
    host.link._changed = lambda status: states.append(status.state)
    answers: list[RemoteRequest] = []
    try:
        eventually(lambda: host.is_reached or host.is_down)
        for name in ("stop", "launch"):
            host.link.order(RemoteRequest([name, RUN], "/", answers.append))
        eventually(lambda: host.status.trouble is Trouble.SILENT)
        eventually(lambda: len(answers) == 2)
        assert all(answer.problem for answer in answers)
        assert host.status.retry_at is not None

        # It greets again, and that alone makes it no machine that is reached.
        states.clear()
        retry_at = host.status.retry_at
        host.link.retry_now()
        eventually(lambda: host.status.retry_at != retry_at)
        assert host.status.trouble is Trouble.SILENT and LinkState.UP not in states

        evil.say(watch=[[{"snapshot": TREE}, ""]])
        host.link.retry_now()
        eventually(lambda: LinkState.UP in states)
        # One snapshot, and never a word again: what is shown is not as it is now.
        eventually(lambda: host.is_down)
        assert host.status.trouble is Trouble.SILENT
    finally:
        host.stop()


def test_a_machine_that_talks_without_an_end_on_stderr_fills_nothing(
    evil: LyingMachine, tmp_path: Path
) -> None:
    evil.say(stderr="x" * (8 << 20) + "\nthe last line\n", hello=[[{"answer": HELLO}, ""]])
    link = Link(Ssh(evil.registry, evil.host)).start()
    try:
        eventually(lambda: link.status.state is LinkState.UP)
        connection = link._connection
        assert connection is not None
        eventually(lambda: connection.error_output().endswith("the last line\n"))
        assert len(connection.error_output()) <= 64 << 10
    finally:
        link.stop()


def test_a_node_whose_ending_is_told_is_known(evil: LyingMachine) -> None:
    watched = _Watched(Ssh(evil.registry, evil.host), NodeRun("evil", RUN))
    watched.take(LinkMessage({"answer": SAMPLES[frames.NodeEnding]}))
    assert watched.ending == frames.NodeEnding("failed", "why", 9.0, 1, "oom")
