"""Copies over a line that breaks: they go on where it broke, and count what all tries brought."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from runners.host.files import read_plain
from runners.places.ssh import retries
from runners.places.ssh.agent_tool import ask_stamps
from runners.places.ssh.copying import Copied, stamps_of
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.rsync import make_copier
from runners.places.ssh.ssh import Ssh
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine, Wire

LARGE = 6 << 20
EACH = 1 << 20
"""Bytes after which the line breaks: the large file never comes in one go."""
NAMES = [f"part {i}.txt" for i in range(20)]


@pytest.fixture(params=["rsync", "stream"])
def far(
    request: pytest.FixtureRequest, line: CommandLine, rent: Callable[..., RentedMachine]
) -> tuple[RentedMachine, Ssh]:
    """A machine behind a slow line, once for either way to copy."""
    machine = rent()
    machine.wire.close()
    machine.wire = Wire(machine.port, rate=16e6)
    host = add(line, machine)
    host = msgspec.structs.replace(host, has_rsync=request.param == "rsync")
    registry = RemoteRegistry(line.state)
    registry.save(host)
    return machine, Ssh(registry, host)


@contextmanager
def breaking(wire: Wire, moved: Callable[[], int]) -> Iterator[list[int]]:
    """Within it the line breaks whenever EACH bytes have come; how often it did."""
    over, cuts = threading.Event(), [0]

    def cut() -> None:
        last = moved()
        while not over.wait(0.005):
            if moved() - last > EACH:
                cuts[0] += wire.cut() > 0
                last = moved()

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield cuts
    finally:
        over.set()
        thread.join()


def make_files(folder: Path) -> dict[str, int]:
    """A large file and many small ones; their sizes."""
    folder.mkdir(parents=True)
    (folder / "large.pt").write_bytes(os.urandom(LARGE))
    for name in NAMES:
        (folder / name).write_bytes(os.urandom(100))
    return {"large.pt": LARGE, **dict.fromkeys(NAMES, 100)}


def same(one: Path, other: Path, names: Iterable[str]) -> bool:
    """Whether both folders have these files alike, and nothing else."""
    kept = {path.name for path in other.iterdir() if not path.name.startswith(".rsync")}
    return kept == set(names) and all(
        read_plain(one / name) == read_plain(other / name) for name in names
    )


def test_what_is_brought_goes_on_where_it_broke(
    far: tuple[RentedMachine, Ssh], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))
    machine, ssh = far
    there, here = machine.home / "from", tmp_path / "here"
    sizes = make_files(there)
    with breaking(machine.wire, lambda: machine.wire.carried) as cuts:
        copied = make_copier(ssh).bring(str(there), sizes, here)
    assert cuts[0] > 3, "more often than there are pauses"
    assert same(there, here, sizes)
    assert copied == Copied(len(sizes), sum(sizes.values())), "of all tries"
    assert make_copier(ssh).bring(str(there), sizes, here) == Copied()


def test_a_shell_that_talks_is_passed_over(far: tuple[RentedMachine, Ssh], tmp_path: Path) -> None:
    machine, ssh = far
    machine.write(".bashrc", "echo welcome to your GPU\n")
    there, here = machine.home / "from", tmp_path / "here"
    sizes = make_files(there)
    copier = make_copier(ssh)
    assert copier.bring(str(there), sizes, here) == Copied(len(sizes), sum(sizes.values()))
    copier.send(here, sizes, str(machine.home / "to"))
    assert same(there, machine.home / "to", sizes)


def test_what_is_sent_goes_on_where_it_broke(
    far: tuple[RentedMachine, Ssh], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0, 0.0))
    machine, ssh = far
    there, here = machine.home / "to", tmp_path / "here"
    sizes = make_files(here)
    with breaking(machine.wire, lambda: machine.wire.taken) as cuts:
        make_copier(ssh).send(here, sizes, str(there))
    assert cuts[0] > 3
    assert same(here, there, sizes)
    assert ask_stamps(ssh, str(there), list(sizes)) == stamps_of(here, sizes)
