"""`host shell`, `forward`, `ssh-config`: a person's own ways to a machine, over a real sshd."""

import http.client
import http.server
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine
from tests.support import CEILING_S, eventually, free_port


@pytest.fixture
def page() -> Iterator[int]:
    """The port of a server on that machine's loopback, which is this one's too here."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"curves")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def asked(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    except OSError:
        return b""
    finally:
        connection.close()


def test_a_command_there_has_its_own_exit_code(line: CommandLine, rented: RentedMachine) -> None:
    """It runs in the folder where runs start."""
    (rented.home / "fresnel").mkdir()
    done = line.run("host", "shell", "rented", "--", "sh", "-c", "pwd; exit 7", exits=7)
    assert Path(done.stdout.strip()).name == "fresnel"


def test_a_port_there_is_had_here_until_it_is_ended(
    line: CommandLine, rented: RentedMachine, page: int
) -> None:
    port = free_port()
    child = line.begin("host", "forward", "rented", f"{port}:{page}")
    assert eventually(lambda: asked(port)) == b"curves"
    child.send_signal(signal.SIGINT)
    assert child.wait(CEILING_S) == 0
    assert asked(port) == b""
    taken = line.run("host", "forward", "rented", f"{page}:{page}", exits=4)
    assert str(page) in taken.stderr
    line.run("host", "forward", "rented", "6006:http", exits=2)


def test_an_editor_s_ssh_reaches_it_by_the_block(
    line: CommandLine, rented: RentedMachine, tmp_path: Path
) -> None:
    """The block alone is enough: the key is pinned, and no other is taken."""
    config = tmp_path / "config"
    config.write_text(line.run("host", "ssh-config", "rented").stdout)
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "fresnel-rented", "echo", "here"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"here\n"


def test_one_command_on_several_machines(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    """One that is not reached is said so, beside what the others answer."""
    machines = [rent(name) for name in ("first", "second")]
    for machine in machines:
        add(line, machine)
        line.run("launch", "--gpus", "0", "--name", f"on-{machine.name}", *asleep_on(machine.name))
    found = line.json("list", "--host", "all")
    assert {host: [run["name"] for run in runs] for host, runs in found.items()} == {
        "first": ["on-first"],
        "second": ["on-second"],
    }
    # Whichever answers first is shown first, each below its own name.
    shown = line.run("list", "--host", "first,second").stdout
    blocks = [block for block in shown.split("── ") if block]
    assert {block.split()[0]: f"on-{block.split()[0]}" in block for block in blocks} == {
        "first": True,
        "second": True,
    }
    line.run("logs", "last", "--host", "all", exits=2)
    line.run("stop", "state:running", "--yes", "--force", "--wait", "--host", "all")
    states = line.json("list", "--host", "first,second")
    assert [runs[0]["state"] for runs in states.values()] == ["stopped", "stopped"]
    machines[1].wire.close()
    found = line.json("list", "--host", "all", exits=None)
    assert found["first"][0]["name"] == "on-first" and found["second"]["error"]["message"]


def asleep_on(host: str) -> tuple[str, ...]:
    return ("--host", host, "--", "sleep", "300")


@pytest.mark.parametrize("word", ["any", "all"])
def test_no_machine_and_no_label_has_a_word_for_several(line: CommandLine, word: str) -> None:
    """Refused before anything is reached, rented or written down."""
    line.run("host", "add", word, "root@127.0.0.1:1", exits=2)
    line.run("host", "add", "fine", "root@127.0.0.1:1", "--label", word, exits=2)
    line.run("host", "create", word, "--create-command", "touch rented", exits=2)
    line.run("up", "root@127.0.0.1:1", "--as", word, "--yes", "--", "true", exits=2)
    RemoteRegistry(line.state).save(RemoteHost("known", "root@127.0.0.1"))
    line.run("host", "label", "known", word, exits=2)
    assert RemoteRegistry(line.state).names() == ["known"]
    assert RemoteRegistry(line.state).find("known").labels == ()
    assert not (line.folder / "rented").exists()
