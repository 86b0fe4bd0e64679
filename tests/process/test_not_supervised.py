"""A supervisor killed in its first moment: the launch takes another and says what there is."""

import pytest

from runners.lifecycle.control import start
from runners.lifecycle.control.start import NotSupervised, start_together
from runners.lifecycle.launch import adopt
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
