"""The link to a rented machine: commands there, and output that survives broken lines."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from runners.places.ssh.link import Link, LinkState
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import Ssh, Trouble
from tests.command_text import ANOTHER_HOST_KEY, NOT_REACHED
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine
from tests.support import CEILING_S, eventually


def test_commands_run_there(line: CommandLine, rented: RentedMachine) -> None:
    assert line.json("list", "--host", "rented") == []
    run = line.run("launch", "--gpus", "0", "--host", "rented", "--", "echo", "hello there")
    run_id = run.stdout.strip()
    assert line.run("wait", run_id, "--host", "rented").returncode == 0
    assert line.run("logs", run_id, "--host", "rented").stdout == "hello there\n"
    assert line.json("status", "last", "--host", "rented")["host"] == "rented"
    assert line.json("list") == []
    assert line.run("status", "nothing", "--host", "rented", exits=3).stderr


def test_a_talking_shell_is_passed_over(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent()
    (machine.home / ".bashrc").write_text(
        "echo welcome to your GPU; printf 'no newline: {\"id\":1}'\n"
    )
    add(line, machine)
    assert line.json("list", "--host", "rented") == []
    assert "at login: ignored" in line.run("host", "test", "rented").stdout


def test_one_session_at_a_time_is_enough(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent(more="MaxSessions 1")
    add(line, machine)
    follower = line.begin("logs", "-f", "last", "--host", "rented")
    assert line.json("list", "--host", "rented") == []
    assert line.json("gpus", "--host", "rented")
    follower.kill()


def test_nothing_is_lost_or_doubled_when_the_line_is_cut(
    line: CommandLine, rented: RentedMachine
) -> None:
    parts, lines = 9, 4_000
    # Each part is written only when the one before it was cut.
    program = (
        "import os, time\n"
        f"for part in range({parts}):\n"
        "    while not os.path.exists(f'go{part}'): time.sleep(0.01)\n"
        f"    for i in range({lines}): print(f'line {{part}} {{i}}', flush=i % 100 == 0)\n"
    )
    line.run("launch", "--gpus", "0", "--host", "rented", "--", "python3", "-c", program)
    target = line.folder / "followed"
    cuts = 0
    with target.open("wb") as file:
        follower = line.begin("logs", "-f", "last", "--host", "rented", stdout=file)
        for part in range(parts):
            (rented.home / "fresnel" / f"go{part}").touch()
            _holds(target, f"line {part} ", follower)
            if part < parts - 1:
                cuts += rented.wire.cut()
        follower.wait(2 * CEILING_S)
    assert follower.returncode == 0, follower.communicate()[1]
    assert cuts >= parts - 1
    wanted = [f"line {part} {i}\n" for part in range(parts) for i in range(lines)]
    assert target.read_text() == "".join(wanted)


def _holds(path: Path, words: str, writer: "subprocess.Popen[bytes]") -> None:
    """Wait until the words stand in a file, or its writer has ended."""
    eventually(lambda: writer.poll() is not None or words in path.read_text())


def test_another_host_key_is_a_clear_question(line: CommandLine, rented: RentedMachine) -> None:
    rented.new_host_key()
    refused = line.run("list", "--host", "rented", exits=4).stderr
    assert ANOTHER_HOST_KEY in refused and "host add rented" in refused
    registry = RemoteRegistry(line.state)
    before = registry.find("rented")
    line.run("host", "add", "rented", "--replace")
    after = registry.find("rented")
    assert (after.address, after.port, after.options) == (
        before.address,
        before.port,
        before.options,
    )


def test_a_machine_that_is_off_is_not_reached(line: CommandLine, rented: RentedMachine) -> None:
    rented.wire.close()
    refused = line.run("list", "--host", "rented", exits=4).stderr
    assert refused.startswith(f"fresnel-tui: rented {NOT_REACHED}")


def test_an_agent_that_is_not_understood_is_told_of_and_the_link_lives(
    line: CommandLine, rented: RentedMachine
) -> None:
    agent = rented.home / "odd-agent"
    agent.write_text(
        '#!/bin/sh\nprintf \'\\036fresnel-tui link 1\\n{"id":1,"answer":[7]}\\n\'; cat\n'
    )
    agent.chmod(0o755)
    registry = RemoteRegistry(line.state)
    host = msgspec.structs.replace(registry.find("rented"), command=str(agent))
    registry.save(host)
    link = Link(Ssh(registry, host)).start()
    try:
        eventually(lambda: link.status.trouble is Trouble.NOT_UNDERSTOOD)
        assert link.status.state is LinkState.DOWN and "host setup rented" in link.status.hint
        command = str(rented.install())
        link.ssh.host = msgspec.structs.replace(host, command=command)
        link.retry_now()
        eventually(lambda: link.status.state is LinkState.UP)
    finally:
        link.stop()
