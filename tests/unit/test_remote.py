"""Rented machines without a machine: words of ssh, messages in pieces, changes, output files."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.host.files import replace
from runners.host.tail import GrowingFile
from runners.lifecycle.supervisor.output_limit import OutputLimit
from runners.model.errors import FresnelError, WrongInput
from runners.model.units import duration_text
from runners.places.own_folder import own_folder
from runners.places.ssh import pushed_files
from runners.places.ssh.accounts import take_in_ledger
from runners.places.ssh.following import FollowedOutput
from runners.places.ssh.link import offset_text
from runners.places.ssh.machine import SshMachines
from runners.places.ssh.output_mirror import RemoteOutput
from runners.places.ssh.protocol import MARKER, LinkMessage, LinkNoise, MessageReader, pack
from runners.places.ssh.pushed_files import PushedPreset, note_pushed, read_pushed
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, address_text, parse_address
from runners.places.ssh.snapshot_updates import apply, difference
from runners.places.ssh.ssh import Ssh, Trouble, quoted
from runners.state.layout import StateDirectory
from tests.support import CEILING_S, eventually
from tui.agent.serve import Agent
from tui.cli.host_logs import _Follower
from tui.cli.host_option import take_host

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)
TREES = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


@given(TREES, TREES)
def test_a_difference_makes_the_new_of_the_old(
    old: dict[str, object], new: dict[str, object]
) -> None:
    changes = difference(old, new)
    assert apply(old, changes) == new
    assert bool(changes) == (old != new)


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 30))
def test_messages_come_whole_in_whatever_pieces(payloads: list[bytes], size: int) -> None:
    noise = b"Welcome!\nno newline"
    stream = noise + MARKER + b"".join(pack({"id": i}, p) for i, p in enumerate(payloads))
    reader = MessageReader(marker=True)
    found = [
        message
        for at in range(0, len(stream), size)
        for message in reader.feed(stream[at : at + size])
    ]
    assert [message.payload for message in found] == payloads


def test_a_shell_that_only_talks_is_no_link() -> None:
    reader = MessageReader(marker=True)
    with pytest.raises(LinkNoise, match="talk"):
        for _ in range(300):
            reader.feed(b"talk " * 1000)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ssh: connect to host x port 22: Connection refused", Trouble.NOT_REACHED),
        ("root@x: Permission denied (publickey,password).", Trouble.LOGIN),
        ("mux_client_request_session: Session open refused by peer", Trouble.ONE_SESSION),
        (
            "Host key for fresnel-box has changed and you have requested strict checking.\n"
            "Host key verification failed.",
            Trouble.KEY_CHANGED,
        ),
        (
            "Host key verification failed.\nConnection closed by UNKNOWN port 65535",
            Trouble.NOT_REACHED,
        ),
    ],
)
def test_what_ssh_s_words_mean(said: str, kind: Trouble) -> None:
    ssh = Ssh(RemoteRegistry(StateDirectory()), RemoteHost("box", "root@x"))
    assert ssh.trouble(said).kind is kind


def test_ssh_is_strict_and_forwards_nothing() -> None:
    words = Ssh(RemoteRegistry(StateDirectory()), RemoteHost("box", "root@x")).command("keep")
    for option in ("StrictHostKeyChecking=yes", "ForwardAgent=no", "BatchMode=yes"):
        assert option in words
    assert not any(word in ("-A", "-X") for word in words)


def test_addresses() -> None:
    assert parse_address("gpu-box") == ("gpu-box", None)
    assert parse_address("root@10.0.0.7:2222") == ("root@10.0.0.7", 2222)
    for text, address, port in (
        ("anna@[fd66::11]:2203", "anna@fd66::11", 2203),
        ("[fd66::11]:22", "fd66::11", 22),
        ("anna@[fd66::11]", "anna@fd66::11", None),
        ("anna@fd66::11", "anna@fd66::11", None),
        ("fd66::11", "fd66::11", None),
    ):
        assert parse_address(text) == (address, port)
        host = RemoteHost("box", address, port)
        assert parse_address(address_text(host)) == (address, port)
    for wrong in ("-oProxyCommand=evil", "a b", "root@x:99999", "", "[]:22", "root@[a b]:22"):
        with pytest.raises(WrongInput):
            parse_address(wrong)


def test_a_clock_s_difference_is_a_length_of_time() -> None:
    assert duration_text(18000) in offset_text(18000.0)
    assert duration_text(18000) in offset_text(-18000.0)
    assert offset_text(-18000.0) != offset_text(18000.0)
    assert offset_text(1.0) == "" == offset_text(None)


def test_words_that_no_two_shells_agree_on_are_refused() -> None:
    assert quoted("/home/x/my panel") == "'/home/x/my panel'"
    for wrong in ("it's", "a\\b", "a\nb", "wow!"):
        with pytest.raises(ValueError, match="cannot be said"):
            quoted(wrong)


def test_the_host_is_taken_off_a_command() -> None:
    assert take_host(["logs", "last", "--host", "amd", "-f"]) == (["logs", "last", "-f"], "amd")
    assert take_host(["launch", "--", "x", "--host", "y"]) == (
        ["launch", "--", "x", "--host", "y"],
        "",
    )
    assert take_host(["gpus", "--host"]) == (["gpus", "--host"], "")
    assert take_host(["gpus", "--host=amd"]) == (["gpus"], "amd")
    with pytest.raises(FresnelError):
        take_host(["list", "--host"])


def test_output_goes_on_where_it_was_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"first attempt\n")
    file = FollowedOutput(path)
    first = file.read(6)
    assert first is not None and first.data == b"first "
    file.close()
    path.rename(tmp_path / "output.1.log")
    path.write_bytes(b"second\n")

    back = FollowedOutput(path, first.at + len(first.data), first.inode)
    rest, then = back.read(99), back.read(99)
    assert rest is not None and (rest.at, rest.data) == (6, b"attempt\n")
    assert then is not None and (then.at, then.data) == (0, b"second\n")
    assert then.inode != rest.inode and back.read(99) is None
    back.close()


def test_far_behind_only_whole_newest_lines_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %05d\n" % i for i in range(10_000)))
    file = FollowedOutput(path)
    piece = file.read(1 << 20, most=1000)
    assert piece is not None
    assert piece.data.startswith(b"line ") and piece.data.endswith(b"line 09999\n")
    assert piece.skipped == piece.at == os.path.getsize(path) - len(piece.data)  # noqa: PTH202
    file.close()


def test_only_entries_of_a_ledger_are_taken_into_ours(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    entry = {
        "type": "run",
        "run": "20261122-100000-a-0001",
        "host": "there",
        "preset": "p",
        "name": "n",
        "state": "done",
        "gpus": [],
        "price": {"usd_per_hour": "1.99", "per": "gpu", "basis": "flag"},
        "began": [1.0, "", None],
    }
    lies: list[dict[str, object]] = [
        {"run": "../x"},
        {"began": ["x"]},
        {"began": [1e300, "", None]},
        {"price": {"usd_per_hour": "NaN", "per": "gpu", "basis": "flag"}},
        {"price": {"usd_per_hour": "much", "per": "gpu", "basis": "flag"}},
        {"state": 7},
    ]
    text = "\n".join(json.dumps({**entry, **lie}) for lie in lies)
    assert take_in_ledger(state, f"{text}\nnonsense\n[1]\n", "amd") == 0
    assert take_in_ledger(state, json.dumps(entry), "amd") == 1
    assert take_in_ledger(state, json.dumps(entry), "amd") == 0
    assert json.loads(state.ledger.read_text())["host"] == "amd"


async def test_whatever_is_wrong_with_a_question_it_is_answered() -> None:
    """Who asks waits for an answer, and would for ever."""
    reading, line = os.pipe2(os.O_NONBLOCK)
    agent = Agent(line)
    agent._accept({"id": 1, "do": "ask", "question": "details", "subjects": []})
    await asyncio.wait(agent._tasks.values())
    (message,) = MessageReader().feed(os.read(reading, 4096))
    assert message.fields["id"] == 1 and message.fields["error"]
    os.close(reading)
    os.close(line)


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), BrokenPipeError()])
def test_an_output_that_takes_no_more_ends_a_log_that_is_followed_over_a_link(
    problem: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = _Follower(
        Ssh(RemoteRegistry(StateDirectory()), RemoteHost("box", "root@x")), "run", None
    )

    def full(frame: object) -> int:
        raise problem

    monkeypatch.setattr(follower._output, "take", full)
    assert follower.take(None) == 0
    assert follower.over.is_set() and follower.failure is problem


def test_output_that_was_cut_at_its_end_is_not_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %05d\n" % number for number in range(5000)))
    file = FollowedOutput(path)
    while file.read(1 << 16) is not None:
        pass
    OutputLimit(path, 32 << 10, print).compact()
    assert path.stat().st_size < 40_000
    assert file.read(1 << 16) is None, "all of it was sent"


@pytest.mark.parametrize("by", [FollowedOutput, lambda path: GrowingFile(path, hold=True)])
def test_the_next_attempt_is_shown_from_its_beginning_also_where_the_last_was_cut(
    tmp_path: Path, by: Callable[[Path], FollowedOutput | GrowingFile]
) -> None:
    """Whoever follows looked neither after the cut nor before the next attempt's first line."""
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %05d\n" % number for number in range(5000)))
    file = by(path)
    while (piece := file.read(1 << 16)) is not None and piece.data:
        pass
    OutputLimit(path, 32 << 10, print).compact()
    path.rename(tmp_path / "output.1.log")
    path.write_bytes(b"once more\n" * 10)
    pieces = [piece.data for _ in range(3) if (piece := file.read(1 << 16)) is not None]
    assert b"".join(pieces) == path.read_bytes()


def test_output_that_was_passed_over_up_to_its_end_is_told(tmp_path: Path) -> None:
    path, told = tmp_path / "output.log", list[tuple[bytes, int]]()
    path.write_bytes(b"x" * 1000 + b"\n")
    piece = FollowedOutput(path).read(1 << 16, most=500)
    assert piece is not None
    there = RemoteOutput("last", lambda data, skipped, _: told.append((data, skipped)))
    fields = {"at": piece.at, "inode": piece.inode, "skipped": piece.skipped}
    there.take(LinkMessage(fields, piece.data))
    assert told == [(b"", path.stat().st_size)]


def test_a_panel_on_another_host_of_a_shared_home_keeps_its_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = StateDirectory().create()
    monkeypatch.setenv("FRESNEL_HOST", "other")
    theirs = SshMachines(state, lambda: None)._mirrors
    theirs.with_name("1999999999").mkdir(parents=True)  # of a process that is not of this host
    monkeypatch.setenv("FRESNEL_HOST", "this")
    SshMachines(state, lambda: None)
    assert theirs.with_name("1999999999").exists()


def test_what_killed_panels_left_behind_is_removed(tmp_path: Path) -> None:
    ours = own_folder(tmp_path)
    gone, old, late = (ours.with_name("1999999999"), tmp_path / "1999998", tmp_path / "1999997")
    for folder in (ours, gone, old, late):
        folder.mkdir(parents=True)
        (folder / "output.log").symlink_to("/nowhere")
    os.utime(old, (0, 0))  # of version 0.3
    assert own_folder(tmp_path) == ours
    assert [path.exists() for path in (ours, gone, old, late)] == [True, False, False, True]


def test_of_two_pushes_at_once_each_preset_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, host = RemoteRegistry(StateDirectory().create()), RemoteHost("box", "root@x")
    registry.save(host)
    others: list[Thread] = []

    def write(path: Path, content: bytes) -> None:
        if not others:
            second = PushedPreset("b", 2.0)
            others.append(Thread(target=note_pushed, args=(registry, host, second), daemon=True))
            others[0].start()
            eventually(lambda: not others[0].is_alive() or _waits(others[0]))
        replace(path, content)

    monkeypatch.setattr(pushed_files, "replace", write)
    note_pushed(registry, host, PushedPreset("a", 1.0))
    others[0].join(CEILING_S)
    assert read_pushed(registry, host).keys() == {"a", "b"}


def _waits(thread: Thread) -> bool:
    return "lock" in Path(f"/proc/self/task/{thread.native_id}/wchan").read_text()
