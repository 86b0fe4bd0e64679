"""Which checkpoint is a run's newest: every surface and every use of it names the same file."""

from pathlib import Path

from hypothesis import given, settings

from runners.diagnosis.remedy.case import Case, Unfit
from runners.diagnosis.remedy.checkpoint_remedies import resume
from runners.host.files import read_json
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.supervisor.attempt_start import CheckpointChoice
from runners.model.errors import NotFound
from runners.model.run import Run
from runners.model.spec import ResumeRule, RunSpec
from runners.model.states import State
from runners.places.ssh.manifest import make_manifest
from runners.state.records import plan_fields
from runners.watch.metrics.checkpoints import run_checkpoint
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, World, hosts
from tests.pairs.surfaces import ask_all
from tui.cli.checkpoint import checkpoint_path
from tui.panel.screens.stop import StopScreen

SPEC = RunSpec("drawn", "drawn", "command", resume=ResumeRule("", ("--resume", "${checkpoint}")))


def resumed_from(world: World, run: Run) -> str | None:
    """What `launch --resume` begins from; None when it finds nothing."""
    try:
        return resume_run(world.state, run, SPEC).spec.resumed_from
    except NotFound:
        return None


def remedied_from(world: World, run: Run) -> str | None:
    """What the remedy `resume` begins from; None when it finds nothing."""
    try:
        return resume(Case(world.state, run, SPEC)).spec.resumed_from
    except Unfit:
        return None


def opened(world: World, run: Run) -> str | None:
    """What `checkpoint inspect RUN` opens; None when it finds nothing."""
    try:
        return checkpoint_path(run.id, world.state)
    except NotFound:
        return None


def restarted_from(world: World, run: Run) -> str | None:
    """What the supervisor's next attempt begins from."""
    directory = world.state.run(run.id)
    plan = plan_fields(read_json(directory.plan))
    plan["restart_arguments"] = ["${checkpoint}"]
    return next(iter(CheckpointChoice(directory).arguments(plan, run.started or 0.0)), None)


@settings(max_examples=60, deadline=None)
@given(host=hosts())
def test_the_newest_checkpoint_is_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            found = ask_all(world, run)
            told = found.json["checkpoint"]
            path = None if told is None else told["path"]
            assert (found.view.checkpoint.path if found.view.checkpoint else None) == path
            one = run_checkpoint(run)
            assert (None if one is None else one.path) == path
            assert opened(world, run) == path
            fetched = make_manifest(world.state, run).checkpoints
            assert fetched == (() if path is None else (Path(path).name,))
            if run.started is not None:
                assert restarted_from(world, run) == path
            if run.state is State.STOPPING:
                text = StopScreen(found.view)._text().plain
                assert ("none seen" if path is None else Path(path).name) in text
            for texts in (found.status.get("checkpoint"), found.details["newest"]):
                assert texts is None or texts.startswith("none seen" if path is None else path)
            if not run.is_live:
                assert (resumed_from(world, run), remedied_from(world, run)) == (path, path)


@settings(max_examples=20, deadline=None)
@given(host=hosts())
def test_a_checkpoint_that_went_away_is_claimed_nowhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for run in world.runs():
            for file in Path(run.directory).glob("checkpoints/*"):
                file.unlink()
            found = ask_all(world, run)
            assert found.json["checkpoint"] is None and found.view.checkpoint is None
            if not run.is_live:
                assert resumed_from(world, run) is None
