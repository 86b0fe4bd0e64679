"""What is written by who lives for days: whole lines, once, whatever the disk and the names are."""

import errno
import json
import os
import signal
from pathlib import Path
from threading import Thread

import pytest

from runners.host import files, helpers
from runners.host.files import (
    append_event,
    append_line,
    create_once,
    names_in,
    replace,
    write_json,
)
from runners.lifecycle.launch.unfinished import all_or_none, settle_unfinished
from runners.lifecycle.supervisor import node_task
from runners.lifecycle.supervisor.node_task import NodeTask
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.state.layout import StateDirectory

ODD = os.fsdecode(b"epoch-\xff.pt")
"""A name of a file that is no UTF-8, as the system gives it."""


def test_a_name_that_is_no_text_ends_no_supervisor(tmp_path: Path) -> None:
    append_event(tmp_path / "events", "checkpoints removed", paths=[ODD])
    write_json(tmp_path / "state", {"ending": {"left": [ODD]}})
    assert json.loads((tmp_path / "events").read_text())["paths"] == ["epoch-?.pt"]
    assert json.loads((tmp_path / "state").read_text()) == {"ending": {"left": ["epoch-?.pt"]}}


def test_what_a_full_disk_refused_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an empty file would say for ever that it was."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "write", refuse)
        with pytest.raises(OSError, match="space"):
            create_once(tmp_path / "said", b"it")
    assert create_once(tmp_path / "said", b"it")
    assert (tmp_path / "said").read_bytes() == b"it"
    assert not create_once(tmp_path / "said", b"again")


def test_a_line_after_one_that_was_cut_short_stands_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"run":"one"}\n{"run":"tw')
    append_line(path, b'{"run":"three"}')
    append_line(path, b'{"run":"four"}')
    assert path.read_text().splitlines()[1:] == ['{"run":"tw', '{"run":"three"}', '{"run":"four"}']


def test_who_finds_no_process_to_be_had_keeps_no_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = len(names_in("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(helpers.os, "fork", refuse)
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                helpers.run("dispatch")
            with pytest.raises(BlockingIOError):
                helpers.spawn("watcher")
    assert len(names_in("/proc/self/fd")) <= before  # garbage may close more


def test_a_sleep_of_months_is_no_error() -> None:
    wakeups = WakeupLoop()
    signal.raise_signal(signal.SIGUSR1)  # so that it is over at once
    wakeups.sleep(90 * 86_400.0)


def test_a_node_s_program_that_is_done_has_not_failed_for_want_of_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(node_task, "replace", refuse)
    monkeypatch.setattr(NodeTask, "_await", lambda _: 0)
    task = NodeTask.__new__(NodeTask)
    task.folder = tmp_path
    assert task.wait() == 0


def test_two_threads_that_replace_a_file_at_once_share_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sync = tmp_path / "file", os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        other = Thread(target=replace, args=(path, b"theirs"))
        other.start()
        other.join()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    replace(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert list(tmp_path.iterdir()) == [path]


def test_a_launch_of_several_for_which_the_disk_is_too_full_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, ids = StateDirectory().create(), [f"20261127-10150{second}-a-7f3a" for second in (1, 2)]
    touch = Path.touch

    def full(path: Path, mode: int = 0o666) -> None:
        if path == state.live_marker(ids[1]):
            raise OSError(errno.ENOSPC, "No space left on device")
        touch(path, mode)

    monkeypatch.setattr(Path, "touch", full)
    with pytest.raises(OSError, match="space"), all_or_none(state, ids):
        for run_id in ids:
            state.run(run_id).path.mkdir()
    settle_unfinished(state)
    assert not any(state.run(run_id).was_launched() for run_id in ids)
    assert not names_in(state.runs)
