"""The Python module: launch, look, label and end runs as a program does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.support import CEILING_S, eventually
from tui.api import DeniedError, NotFound, State, WrongInput, find, launch, runs, sweep

PRESET = """\
launcher: command
command: [sh, -c, 'echo "epoch: 1/1 | loss: $1"', sh]
gpus: 0
parameters:
  lr: {value: 0.5, flag: '', minimum: 0}
  seed: {value: 0, flag: ''}
"""


@pytest.fixture
def preset(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> str:
    """A preset in the folder that the test stands in."""
    monkeypatch.chdir(cli.folder)
    Path("mine.yaml").write_text(PRESET)
    return "./mine.yaml"


def test_a_preset_is_launched_waited_for_and_read(preset: str) -> None:
    run = launch(preset, {"lr": 0.25}, name="trial")
    assert run.wait(CEILING_S) is State.DONE and not run.is_live and run.exit_code == 0
    eventually(lambda: run.metrics.get("loss") == 0.25, what="its last loss")
    assert run.best == {"loss": 0.25} and "loss: 0.25" in run.output()
    run.rename("kept")
    run.tag("good")
    assert find("kept") == run and run.tags == ("good",) and runs("kept") == [run]
    assert run.to_json()["name"] == "kept" and run.directory.is_dir()
    assert run.wait(0) is State.DONE, "nothing is waited for"
    again = launch(again=run, set={"lr": 0.75})
    again.wait(CEILING_S)
    assert "loss: 0.75" in again.output()
    run.delete()
    with pytest.raises(NotFound):
        find("kept")
    with pytest.raises(NotFound):
        _ = run.state


def test_a_command_is_stopped_and_what_cannot_be_done_raises(cli: CommandLine) -> None:
    run = launch(command=["sleep", "600"], gpus=0)
    eventually(lambda: run.state is State.RUNNING, what="a running run")
    assert runs(live=True) == [run]
    with pytest.raises(DeniedError, match="is running"):
        run.delete()
    with pytest.raises(TimeoutError):
        run.wait(0.1)
    run.stop(force=True)
    assert run.wait(CEILING_S) is State.STOPPED and run.reason.startswith("killed by")
    with pytest.raises(WrongInput, match="one of them"):
        launch()
    with pytest.raises(NotFound):
        launch("no-such-preset")
    with pytest.raises(WrongInput, match="gpus"):
        launch(command=["true"], gpus=-1)


def test_a_run_may_wait_for_any_end_of_another(cli: CommandLine) -> None:
    first = launch(command="false", gpus=0)
    second = launch(command="true", gpus=0, after=f"{first.id}:any")
    assert second.wait(CEILING_S) is State.DONE
    with pytest.raises(WrongInput, match="after"):
        launch(command="true", gpus=0, after=f"{first.id}:whenever")


def test_a_grid_is_a_group(preset: str) -> None:
    found = sweep(preset, {"lr": [0.5, 0.25], "seed": range(2)}, parallel=2, name="grid")
    assert [run.name for run in found] == [
        f"grid-lr{lr}-seed{seed}" for lr in (0.5, 0.25) for seed in (0, 1)
    ]
    assert [run.wait(CEILING_S) for run in found] == [State.DONE] * 4
    assert sorted(run.id for run in runs("grid")) == sorted(run.id for run in found)
    with pytest.raises(WrongInput, match="combinations"):
        sweep(preset, {"lr": range(300)})


def test_an_own_command_is_swept_as_a_line_or_as_words(cli: CommandLine) -> None:
    line = "sh -c 'echo loss: {lr}'"
    for command in (line, ["sh", "-c", "echo loss: {lr}"]):
        swept = sweep(command=command, grid={"lr": [0.5, 0.25]}, gpus=0)
        assert [run.wait(CEILING_S) for run in swept] == [State.DONE, State.DONE]
        assert [run.output().split() for run in swept] == [["loss:", "0.5"], ["loss:", "0.25"]]
    run = launch(command=line, set={"lr": 2, "epochs": 3}, gpus=0)
    assert run.wait(CEILING_S) is State.DONE and run.output().split() == ["loss:", "2"]


@pytest.mark.parametrize("call", [launch, sweep])
def test_a_command_in_place_of_a_preset_is_refused_with_where_it_goes(
    cli: CommandLine, call: Callable[..., object]
) -> None:
    with pytest.raises(WrongInput) as refused:
        call(["python", "train.py"], {"lr": [1, 2]})
    assert "command=" in refused.value.hint
