"""A supervisor killed in its first moment: the launch takes another and says what there is."""

import errno
import os

import pytest

from runners.host.files import names_in
from runners.host.locks import acquire
from runners.lifecycle.control import start
from runners.lifecycle.control.start import NotSupervised, start_together
from runners.lifecycle.launch import adopt
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.model.errors import FresnelError
from runners.presets.load import command_spec
from runners.state.runs import list_run_ids
from tests.process.conftest import CommandLine


def killed(*_: object) -> None:
    raise FresnelError("the supervisor did not start")


def test_the_run_is_taken_over_at_once(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.folder)
    monkeypatch.setattr(start, "spawn_supervisor", killed)
    (run,) = start_together(cli.state, [command_spec(["sh", "-c", "echo hi"], ["gpus=0"])])
    ended = cli.ended(cli.state.run(run.id))
    assert (ended["state"], ended["attempt"]) == ("done", 1)
    assert cli.state.run(run.id).output.read_text() == "hi\n", "it was done once"


def test_what_nobody_supervises_is_named_with_all_others(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.folder)
    spec = command_spec(["true"], ["gpus=0"])
    with monkeypatch.context() as patched, pytest.raises(NotSupervised) as raised:
        patched.setattr(start, "spawn_supervisor", killed)
        patched.setattr(adopt, "spawn_supervisor", killed)
        start_together(cli.state, [spec, spec])
    ids = list_run_ids(cli.state)
    assert {run.id for run in raised.value.runs} == set(ids) and len(ids) == 2
    assert all(run_id in str(raised.value) for run_id in ids)
    cli.run("list")
    for run_id in ids:
        assert cli.ended(cli.state.run(run_id))["state"] == "done"


def test_who_lives_on_after_a_launch_that_failed_holds_nothing_of_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(cli.folder)
    spec = command_spec(["true"], ["gpus=0"])
    before = names_in("/proc/self/fd")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="space"):
        patched.setattr(start, "keep_environment", refuse)
        start_together(cli.state, [spec])
    assert len(names_in("/proc/self/fd")) <= len(before)  # garbage may close more


def test_a_launch_that_is_suspended_halfway_keeps_no_guard_from_its_work(cli: CommandLine) -> None:
    """With its note, under its lock: what is to be settled is settled when that is free."""
    state = cli.state.create()
    state.launching.mkdir()
    (state.launching / "note").touch()
    lock = acquire(state.allocation_lock)  # not this thread's, for all that the lock tells
    assert lock is not None
    assert adopt_orphans(state) == [] and (state.launching / "note").exists()
    os.close(lock)
    assert adopt_orphans(state) == [] and not (state.launching / "note").exists()
