"""A server that hangs up before any login: asked again, as nothing has been done there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.places.ssh import connection, ssh
from runners.places.ssh.connection import AgentConnection
from runners.places.ssh.frames import OlderAnswer
from runners.places.ssh.link import Link, LinkState
from runners.places.ssh.protocol import MARKER
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.remote_request import AgentQuestion, RemoteRequest
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tests.support import eventually

RESET = "kex_exchange_identification: read: Connection reset by peer"
Server = Callable[[str, int], Ssh]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A machine whose ssh ends with some words a few times before its agent answers."""
    for module in (connection, ssh):
        monkeypatch.setattr(module, "GREETS_AGAIN_AFTER_S", (0.0, 0.0))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "greeting").write_bytes(MARKER)

    def serve(words: str, times: int) -> Ssh:
        program = tmp_path / "ssh"
        program.write_text(
            f"#!/bin/sh\necho try >>{tmp_path}/tries\n"
            f"[ $(wc -l <{tmp_path}/tries) -gt {times} ] || {{ echo '{words}' >&2; exit 255; }}\n"
            f"cat {tmp_path}/greeting; exec cat\n"
        )
        program.chmod(0o755)
        host = RemoteHost("box", "root@10.0.0.1", command="/home/a/fresnel-tui")
        return Ssh(RemoteRegistry(StateDirectory().create()), host)

    return serve


def tries(folder: Path) -> int:
    return len((folder / "tries").read_text().splitlines())


def test_a_line_reset_in_the_key_exchange_is_made_again(server: Server, tmp_path: Path) -> None:
    with AgentConnection(server(RESET, 2)) as line:
        line.begin()
    assert tries(tmp_path) == 3


def test_a_short_command_is_asked_again_too(server: Server, tmp_path: Path) -> None:
    there = server(RESET, 2)
    assert there.run("true", b"given").stdout == MARKER + b"given"
    assert tries(tmp_path) == 3
    (tmp_path / "tries").unlink()
    with pytest.raises(RemoteTrouble, match="reset by peer"):
        server(RESET, 99).run("true")
    assert tries(tmp_path) == 3


def test_a_server_that_always_hangs_up_is_not_reached(server: Server, tmp_path: Path) -> None:
    with (
        AgentConnection(server(RESET, 99)) as line,
        pytest.raises(RemoteTrouble, match="reset by peer") as found,
    ):
        line.begin()
    assert found.value.kind is Trouble.NOT_REACHED
    assert tries(tmp_path) == 3


@pytest.mark.parametrize(
    "words",
    ["Permission denied (publickey).", "ssh: connect to host 10.0.0.1 port 22: timed out"],
)
def test_what_another_try_would_not_change_is_said_at_once(
    server: Server, tmp_path: Path, words: str
) -> None:
    with AgentConnection(server(words, 99)) as line, pytest.raises(RemoteTrouble):
        line.begin()
    assert tries(tmp_path) == 1


def test_whoever_asks_something_while_it_connects_breaks_nothing(server: Server) -> None:
    """A request wakes the line, which is still waiting for the agent then."""
    with AgentConnection(server(RESET, 0)) as line:
        line.wake()
        line.begin()


def test_a_link_that_is_stopped_waits_no_longer_for_an_agent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BEGINS_WITHIN_S", 10_000.0)
    there = server(RESET, 0)
    (tmp_path / "greeting").write_bytes(b"")
    link = Link(there, lambda _: None).start()
    eventually((tmp_path / "tries").exists, what="ssh started")
    link.subscribe(AgentQuestion({"do": "older"}, OlderAnswer, lambda *_: None))
    link.stop(patience_s=0)
    eventually(lambda: not link._thread.is_alive(), what="the link's end")


def test_a_shell_that_prints_without_end_is_no_agent_and_holds_nobody_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LEAVES_WITHIN_S", 0.1)
    there = server(RESET, 0)
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec yes words\n")
    with (
        AgentConnection(there) as line,
        pytest.raises(RemoteTrouble, match="words") as found,
    ):
        line.begin()
    assert found.value.kind is Trouble.NO_AGENT


def test_a_line_that_cannot_be_made_again_closes_no_descriptor_of_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own are closed by then, and their numbers may be somebody else's."""

    def cannot(*_: object, **__: object) -> None:
        raise BlockingIOError("fork: Resource temporarily unavailable")

    with AgentConnection(server(RESET, 99)) as line:
        monkeypatch.setattr(subprocess, "Popen", cannot)
        with pytest.raises(BlockingIOError):
            line.begin()
        others = [os.open("/dev/null", os.O_WRONLY) for _ in range(9)]
    for descriptor in others:
        os.close(descriptor)


class _GoesDown:
    """The lock of a link that goes down just before somebody gets it."""

    def __init__(self, link: Link) -> None:
        self._link, self._lock = link, link._lock

    def __enter__(self) -> None:
        self._link._lock = self._lock
        self._link._down(RemoteTrouble(Trouble.NOT_REACHED, "it broke"), 0.0)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_an_order_to_a_machine_that_is_lost_meanwhile_is_refused(server: Server) -> None:
    """It would be carried out some time later, when the machine is back."""
    link, answers = Link(server(RESET, 0)), list[str]()
    monkey: Any = link
    monkey._thread = SimpleNamespace(is_alive=lambda: True)
    link._set(link.status._replace(state=LinkState.UP))
    monkey._lock = _GoesDown(link)
    link.order(RemoteRequest(["stop", "run"], "", lambda done: answers.append(done.problem)))
    assert len(answers) == 1
    assert not link._orders
