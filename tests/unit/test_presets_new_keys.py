"""Resuming, totals, expectations, retention, old names of keys, and how a batch is laid out."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.placeholder_values import restart_arguments
from runners.lifecycle.launch.planning import make_plan
from runners.lifecycle.launch.resumed_spec import changes_on_resume, resumed
from runners.model.errors import WrongInput
from runners.model.gpus import GpuSnapshot
from runners.model.plan import LaunchPlan
from runners.model.scaling import batch_notes
from runners.model.spec import Expectation, Retention, RunSpec
from runners.presets.load import command_spec, load_preset
from runners.scheduling.allocation import Allocation
from runners.state.layout import StateDirectory
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.sample import Sample

GIB = 1 << 30
BASE = (
    "launcher: command\ncommand: echo\nparameters:\n  epochs: 40\n  resume: {value: null, type: "
    "str}\n"
)


def load(folder: Path, text: str, *overrides: str) -> RunSpec:
    path = folder / "exp.yaml"
    path.write_text(text)
    return load_preset(path, overrides)


def test_a_run_resumes_by_the_parameter_its_preset_names(tmp_path: Path) -> None:
    spec = load(tmp_path, BASE + "resume: {parameter: resume}\n")
    assert restart_arguments(spec) == ("--resume", "${checkpoint}")
    again = resumed(spec, Path("/c/epoch_3.pt"), "the-parent")
    plan = make_plan(again, StateDirectory(tmp_path).run("r"), Allocation(), None, None).plan
    assert plan.argv[-4:] == ("--epochs", "40", "--resume", "/c/epoch_3.pt")
    assert (plan.spec.parent, plan.spec.resumed_from) == ("the-parent", "/c/epoch_3.pt")


def test_patterns_follow_a_parameter(tmp_path: Path) -> None:
    keys = (
        "checkpoints: ['${parameters.out}/*.pt', '${run_dir}/c/*']\nmetrics: {tensorboard: "
        "'${parameters.out}/logs'}\n"
    )
    text = (
        "launcher: command\ncommand: [echo, '${parameters.out}']\nparameters:\n  out: {value: "
        "%s, type: str}\n"
    )

    def plan_of(value: str, *overrides: str) -> LaunchPlan:
        spec = load(tmp_path, text % value + keys, *overrides)
        return make_plan(spec, StateDirectory(tmp_path).run("r"), Allocation(), None, None).plan

    plan = plan_of("results", "out=other[1]", f"working_directory={tmp_path}")
    assert plan.checkpoints[0] == f"{tmp_path}/other[[]1]/*.pt"
    assert plan.tensorboard == (f"{tmp_path}/other[[]1]/logs",)
    assert plan.argv[-3:] == ("other[1]", "--out", "other[1]")
    with pytest.raises(
        WrongInput, match=r"parameters\.out}: no such parameter, or it has no value"
    ):
        plan_of("null")


def test_or_by_arguments_or_as_a_restart_does(tmp_path: Path) -> None:
    spec = load(tmp_path, BASE + "resume: {arguments: [--model, '${checkpoint}']}\n")
    assert resumed(spec, Path("/c.pt")).arguments == ("--model", "/c.pt")
    spec = load(tmp_path, BASE + "restart: {times: 1, arguments: [--from, '${checkpoint}']}\n")
    assert resumed(spec, Path("/c.pt")).arguments == ("--from", "/c.pt")
    with pytest.raises(WrongInput, match="does not say how its program goes on"):
        resumed(load(tmp_path, BASE), Path("/c.pt"))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("resume: {parameter: model}\n", "there is no parameter `model`"),
        ("resume: {}\n", "one of them"),
        ("resume: {arguments: [--model]}\n", "has ${checkpoint} in it"),
        ("total: {parameter: epoch}\n", "did you mean `epochs`"),
        ("expect: {utilization: much}\n", "60-80%"),
        ("expect: {stages: {one: {memory: lots}}}\n", "amount of memory"),
        ("keep: {last: 0}\n", "keep"),
    ],
)
def test_mistakes_name_the_key_and_what_was_expected(tmp_path: Path, keys: str, said: str) -> None:
    with pytest.raises(WrongInput) as told:
        load(tmp_path, BASE + keys)
    assert said in f"{told.value} {told.value.hint}", str(told.value)


def test_expectations_totals_and_retention_reach_the_plan(tmp_path: Path) -> None:
    spec = load(
        tmp_path,
        BASE + "total: {parameter: epochs}\nkeep: {last: 2, every: 10}\n"
        "expect: {utilization: 60-80%, memory: 40G, per_epoch: 2m, stages: {s3: {memory: 70G}}}\n",
        "epochs=7",
    )
    small = GpuSnapshot(0, "GPU-0", "A100", "nvidia", memory_total=60 * GIB)
    plan = make_plan(spec, StateDirectory(tmp_path).run("r"), Allocation((small,)), None, None).plan
    assert (plan.total_epochs, plan.total_steps) == (7, None)
    assert plan.spec.keep == Retention(2, 1, 10)
    stage = Expectation(memory=70 * GIB)
    assert plan.spec.expect == Expectation(
        utilization=(60.0, 80.0), memory=40 * GIB, epoch_s=120.0, stages={"s3": stage}
    )
    assert plan.notes == ("GPU 0 has 60 GiB; the preset expects its stage s3 to use 70 GiB",)


def test_a_command_s_length_may_be_stated_and_gives_progress(tmp_path: Path) -> None:
    spec = command_spec(["python", "train.py"], ["epochs=40"])
    plan = make_plan(spec, StateDirectory(tmp_path).run("r"), Allocation(), None, None).plan
    assert (plan.total_epochs, plan.argv[-1]) == (40, "train.py")
    course = ProgressTracker()
    course.note(Sample(epoch=10))
    progress = course.progress(100.0, plan.total_epochs, plan.total_steps)
    assert (progress.epochs, progress.fraction) == (40, 9 / 40), "the tenth has begun"
    course = ProgressTracker()
    # That the tenth is over is known by the line that its forerunner had too.
    for epoch in (9, 10):
        course.note(Sample({"loss": 0.5}, epoch=epoch))
    progress = course.progress(100.0, plan.total_epochs, plan.total_steps)
    assert (progress.epochs, progress.fraction) == (40, 0.25)
    course.note(Sample(epochs=20))
    assert course.progress(100.0, 40, None).fraction == 0.5, "what the program says goes first"
    course.note(Sample(step=300))
    assert course.progress(100.0, 40, None).fraction == 0.5, "a step without a total says nothing"


def batch_spec(tmp_path: Path, batch: int, *overrides: str) -> RunSpec:
    return load(
        tmp_path,
        f"launcher: torchrun\nscript: t.py\nparameters: {{bs: {batch}}}\nscaling: {{batch: bs}}\n",
        *overrides,
    )


def test_few_samples_on_a_device_are_warned_of_where_the_preset_has_more(tmp_path: Path) -> None:
    assert any("only 1 sample" in note for note in batch_notes(batch_spec(tmp_path, 64, "bs=8"), 8))
    assert not any("only" in note for note in batch_notes(batch_spec(tmp_path, 8), 8))
    assert not any("only" in note for note in batch_notes(batch_spec(tmp_path, 64, "bs=32"), 8))


def test_a_very_large_batch_and_another_batch_on_resume_are_warned_of(tmp_path: Path) -> None:
    assert any("1,032 in all" in note for note in batch_notes(batch_spec(tmp_path, 1032), 8))
    assert not any("in all" in note for note in batch_notes(batch_spec(tmp_path, 1024), 8))
    old, new = batch_spec(tmp_path, 64), batch_spec(tmp_path, 64, "bs=32")
    (note,) = changes_on_resume(old, new, (8, 8))
    assert "batch of 64" in note and "32" in note
    assert changes_on_resume(old, old, (8, 4)) == ()
