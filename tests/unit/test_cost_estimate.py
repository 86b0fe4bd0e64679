"""Estimates before a launch, projections after two epochs, alerts of overruns, and the guide's
budget table.
"""

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from runners.cost.cost_reader import costs_of
from runners.cost.estimate import forecast
from runners.cost.ledger import RunEntry
from runners.cost.prices import fitting_prices, list_prices, stopping_text
from runners.cost.rates import price_age
from runners.cost.run_costs import Overrun, judge_overrun, warn_of_overrun
from runners.host.clock import Moment
from runners.host.identity import host_name
from runners.model.errors import NotFound, WrongInput
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.plan import AssignedGpu, Estimate
from runners.model.run import Run, RunRecord
from runners.model.spec import Parameter, PresetEstimate, Price, RunSpec
from runners.model.states import State
from runners.presets.load import load_preset
from runners.state.layout import StateDirectory
from runners.watch.metrics.epoch_timing import read_epoch_timing
from tests.support import REPOSITORY, make_plan, make_run
from tui.cli.cost_plan import plan_lines

PRICE = Price("3.60", "gpu", "flag")
GPU = AssignedGpu(0, "GPU-0", "MI300X", 0)
BEGAN = 1_790_000_000.0


NO_WORD = PresetEstimate()


def spec_of(epochs: int | None = 10, estimate: PresetEstimate = NO_WORD, **more: int) -> RunSpec:
    """A preset `demo` whose default is 10 epochs at 64 px."""
    values = {"epochs": epochs, "image_size": 64} | more
    parameters = tuple(
        Parameter(name, value, {"epochs": 10}.get(name, value), "int", f"--{name}")
        for name, value in values.items()
        if value is not None
    )
    return RunSpec("demo", "demo", "python", parameters=parameters, estimate=estimate)


def leave_run(
    state: StateDirectory,
    number: int,
    spec: RunSpec,
    first_s: float = 100.0,
    each_s: float = 10.0,
    epochs: int = 10,
    gpu: AssignedGpu = GPU,
    end: str = "done",
) -> None:
    """A run that has ended: 5 s until its first epoch began, so long for that one, so long for
    each after it.
    """
    run = state.run(f"2026112{number % 10}-101500-demo-{number:04x}")
    run.path.mkdir(parents=True)
    plan = msgspec.structs.replace(make_plan(run.id), spec=spec)
    run.plan.write_bytes(msgspec.json.encode(plan))
    moments = [BEGAN + 5 + first_s + each_s * i for i in range(epochs)]
    events = [{"time": BEGAN + 5, "type": "start", "epochs": epochs, "steps": epochs}]
    events += [
        {"time": moment, "type": "epoch", "epoch": i + 1, "step": i + 1}
        for i, moment in enumerate(moments)
    ]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    finished = Moment(moments[-1] + 3)
    line = RunEntry(run.id, host_name(), "demo", "demo", end, (gpu,), None, Moment(BEGAN), finished)
    with state.ledger.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def test_history_says_what_any_number_of_epochs_takes() -> None:
    state = StateDirectory().create()
    leave_run(state, 1, spec_of())
    found = forecast(state, spec_of(100), [GPU], PRICE)
    assert found is not None and found.basis == "from 1 earlier run on MI300X"
    assert found.seconds == 5 + 100 + 99 * 10 + 3, "the first epoch counts once"
    assert found.usd is not None and Decimal(found.usd) == Decimal("1.098") and found.epoch_s == 10
    leave_run(state, 2, spec_of(4), each_s=12, epochs=4)
    leave_run(state, 3, spec_of(), each_s=11)
    three = forecast(state, spec_of(10), [GPU], None)
    assert three is not None and (three.runs, three.usd, three.epoch_s) == (3, None, 11)


def leave_run_of_stages(
    state: StateDirectory, number: int, spec: RunSpec, epochs: tuple[int, int]
) -> None:
    """A run of two stages with so many epochs: 1 s each, then 5 s each, and 5 s around."""
    leave_run(state, number, spec)
    run = state.run(f"2026112{number % 10}-101500-demo-{number:04x}")
    events: list[dict[str, object]] = [{"time": BEGAN + 2, "type": "start", "epochs": sum(epochs)}]
    at = BEGAN + 2
    for epoch in range(1, sum(epochs) + 1):
        at += 1 if epoch <= epochs[0] else 5
        stage = f"stage {1 + (epoch > epochs[0])}/2"
        events += [{"time": at, "type": "epoch", "epoch": epoch, "step": epoch, "stage": stage}]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    lines = [json.loads(line) for line in state.ledger.read_text().splitlines()]
    lines[-1]["finished"] = msgspec.to_builtins(Moment(at + 3))
    state.ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_program_of_two_stages_has_twice_the_epochs_of_its_parameter() -> None:
    """And the second, of finer pictures, takes longer than the first."""
    state = StateDirectory().create()
    leave_run_of_stages(state, 1, spec_of(10), (10, 10))
    found = forecast(state, spec_of(10), [GPU], PRICE)
    assert found is not None and found.seconds == 5 + 10 * 1 + 10 * 5
    longer = forecast(state, spec_of(20), [GPU], PRICE)
    assert longer is not None and longer.seconds == 2 * 65, "in proportion"
    # It goes on after the first stage, in the middle of the second, and at the end.
    for done, left_s in ((10, 50 + 3), (15, 25 + 3), (20, 3)):
        rest = forecast(state, spec_of(10), [GPU], PRICE, done=done)
        assert rest is not None and rest.seconds == left_s
        assert rest.basis.endswith(f"; for the {20 - done} epochs that are left")


def test_only_runs_that_cost_the_same_are_history() -> None:
    state = StateDirectory().create()
    leave_run(state, 1, spec_of(image_size=256))
    leave_run(state, 2, spec_of(), gpu=AssignedGpu(0, "GPU-9", "H100", 0))
    leave_run(state, 3, spec_of(), end="lost")
    leave_run(state, 4, spec_of(), epochs=1, end="stopped")
    assert forecast(state, spec_of(), [GPU], PRICE) is None
    word = forecast(
        state, spec_of(estimate=PresetEstimate(3600.0, "4", "it is too low")), [GPU], PRICE
    )
    assert word is not None and (word.basis, word.runs, word.doubt) == (
        "the preset's estimate",
        0,
        "it is too low",
    )
    assert word.usd is not None and Decimal(word.usd) == Decimal("3.6"), (
        "its time, at the price of today"
    )
    leave_run(state, 5, spec_of(lr=1), end="stopped", epochs=3)
    learned = forecast(state, spec_of(lr=3, seed=4), [GPU], PRICE)
    assert learned is not None and learned.runs == 1, (
        "a learning rate costs nothing, three epochs say enough"
    )


def test_a_program_that_has_no_parameter_for_its_epochs_says_them_itself() -> None:
    state = StateDirectory().create()
    leave_run(state, 1, spec_of(None), epochs=4, end="stopped")
    leave_run(state, 2, spec_of(None), epochs=4, each_s=20.0, end="stopped")
    found = forecast(state, spec_of(None), [GPU], None)
    assert found is not None and (found.seconds, found.epoch_s) == (5 + 100 + 3 * 15, 15), (
        "the mean of two"
    )


def test_the_preset_s_word_goes_with_the_epochs() -> None:
    state = StateDirectory()
    word = forecast(state, spec_of(5, PresetEstimate(7200.0, "4")), [GPU], None)
    assert word is not None and (word.seconds, word.usd) == (3600.0, "2.000000")
    assert word.basis == "the preset's estimate for 10 epochs, in proportion"
    assert forecast(state, spec_of(), [GPU], PRICE) is None


def test_a_command_s_history_is_its_own_name_s() -> None:
    state = StateDirectory().create()
    leave_run(state, 1, RunSpec("command", "demo", "command"), epochs=0 + 1)
    line = msgspec.json.decode(state.ledger.read_bytes(), type=RunEntry)
    state.ledger.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(line, preset="command")) + b"\n"
    )
    found = forecast(state, RunSpec("command", "demo", "command"), [GPU], PRICE)
    assert found is not None and found.seconds == 108 and found.runs == 1
    assert forecast(state, RunSpec("command", "another", "command"), [GPU], PRICE) is None


def test_a_rhythm_needs_two_epochs_and_begins_anew_with_an_attempt(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"

    def write(*lines: str) -> None:
        events.write_text("\n".join(lines) + "\n")

    start = '{"time": 0, "type": "start", "epochs": 10}'
    write(start, '{"time": 900, "type": "epoch", "epoch": 1}')
    assert read_epoch_timing(tmp_path).remaining_s(900) is None, (
        "the first epoch says nothing about the others"
    )
    write(
        start,
        '{"time": 900, "type": "epoch", "epoch": 1}',
        '{"time": 960, "type": "epoch", "epoch": 2}',
    )
    assert read_epoch_timing(tmp_path).remaining_s(970) == 8 * 60 - 10
    resumed = [
        '{"time": 5000, "type": "start", "epochs": 10}',
        '{"time": 5900, "type": "epoch", "epoch": 3}',
    ]
    write(start, '{"time": 900, "type": "epoch", "epoch": 1}', *resumed)
    assert (
        read_epoch_timing(tmp_path).ends == ((3, 5900.0),)
        and read_epoch_timing(tmp_path).seconds_per_epoch is None
    )
    metrics = [
        json.dumps({"time": t, "type": "metrics", "epoch": 1 + t // 100}) for t in range(0, 400, 50)
    ]
    write(start, *metrics)
    assert read_epoch_timing(tmp_path).ends == ((1, 50.0), (2, 150.0), (3, 250.0)), (
        "the fourth may not be done"
    )
    write(
        start,
        "half a li",
        '{"time": true, "type": 3}',
        '{"time": 900, "type": "epoch", "epoch": 1}',
    )
    assert read_epoch_timing(tmp_path).done == 1


def test_an_overrun_is_more_than_half_as_much_again() -> None:
    expected = Estimate(3600.0, "3.60", "the preset's estimate")
    assert judge_overrun(Decimal("5.40"), expected) is None, "exactly 1.5 times"
    found = judge_overrun(Decimal("7.20"), expected)
    assert found is not None
    assert found.text == (
        "will cost $7.20 at its current pace: 2.0 times its estimate of $3.60 (the preset's "
        "estimate)"
    )
    assert judge_overrun(Decimal(9), None) is None
    assert judge_overrun(Decimal(9), Estimate(None, "0", "free")) is None


def warned(state: StateDirectory, run: Run) -> Overrun | None:
    costs = costs_of(state, [run], Moment(BEGAN + 130))
    return warn_of_overrun(state, run, costs.of(run))


def test_an_overrun_is_said_once_in_the_run_s_own_events() -> None:
    state = StateDirectory().create()
    plan = make_plan(
        price=PRICE, gpus=(GPU,), forecast=Estimate(600.0, "0.60", "the preset's estimate")
    )
    record = RunRecord(State.RUNNING, started=BEGAN)
    run = make_run(
        id="20261121-101500-demo-0001",
        plan=plan,
        record=record,
        directory=str(state.runs / "20261121-101500-demo-0001"),
    )
    directory = state.run(run.id)
    directory.path.mkdir()
    lines = ['{"time": 0, "type": "start", "epochs": 100}']
    lines += [f'{{"time": {BEGAN + 60 * i}, "type": "epoch", "epoch": {i}}}' for i in (1, 2)]
    directory.events.write_text("\n".join(lines[:2]) + "\n")
    assert warned(state, run) is None, "after one epoch nothing is known"
    directory.events.write_text("\n".join(lines) + "\n")
    for _ in range(3):
        assert warned(state, run) is not None
    (alert,) = [json.loads(line) for line in directory.supervisor_events.read_text().splitlines()]
    assert alert["type"] == "alert" and "times its estimate of $0.60" in alert["text"]
    assert json.loads(directory.overrun.read_text())["text"] == alert["text"]
    ended = msgspec.structs.replace(run, state=State.DONE)
    assert warned(state, ended) is None


# ── the guide's modes and its table ───────────────────────────────────────────────────────────────


def test_the_guide_s_budget_table_is_made_of_its_modes() -> None:
    lines = plan_lines(StateDirectory(), "validate:1 fast:4 standard:2 full:1")
    stated = {line.preset: (line.count, line.preset_usd) for line in lines}
    # The guide rounds its validation up to a dollar; the others are its own lines: 16, 24 and 24.
    assert stated == {
        "gaussian-validate": (1, Decimal("0.17")),
        "gaussian-fast": (4, Decimal(16)),
        "gaussian-standard": (2, Decimal(24)),
        "gaussian-full": (1, Decimal(24)),
    }
    total = sum(line.usd or Decimal(0) for line in lines)
    assert round(total, 2) == Decimal("63.85"), "its hours at $1.99"
    assert all(
        line.each is not None and line.each.basis == "the preset's estimate" for line in lines
    )
    doubts = {line.preset: line.each.doubt for line in lines if line.each is not None}
    assert (
        "76 to 167 h" in doubts["gaussian-standard"] and "228 to 502 h" in doubts["gaussian-full"]
    )
    assert doubts["gaussian-fast"] == "the preset's estimate is for a GPU, and this is the CPU"


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ("fast:many", WrongInput, "`fast:many`: expected PRESET:COUNT"),
        ("fast:0", WrongInput, "expected PRESET:COUNT"),
        (f"fast:{'9' * 5000}", WrongInput, "expected PRESET:COUNT"),
        ("fats:1", NotFound, "no preset `fats`"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    words: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        plan_lines(StateDirectory(), words)
    assert text in str(caught.value)


def test_no_estimate_of_ours_stands_without_its_doubt() -> None:
    for mode in ("standard", "full"):
        assert "caveat:" in (REPOSITORY / "presets" / f"gaussian-{mode}.yaml").read_text()


# ── prices ────────────────────────────────────────────────────────────────────────────────────────


def test_a_price_says_its_age_after_90_days() -> None:
    price = Price("1.99", "gpu", "preset", "x", "somewhere", "2026-05-28")
    assert (
        price_age(price, date(2026, 8, 26)) == ""
        and price_age(price, date(2026, 8, 27)) == "91 days old"
    )
    assert price_age(Price("1.99", "gpu", "flag"), date(2099, 1, 1)) == ""


def test_what_a_shutdown_saves_is_said_by_provider() -> None:
    assert stopping_text("amd-cloud-mi300x") == (
        "AMD Developer Cloud (DigitalOcean): a powered-off machine is still billed; destroy "
        "it to end the bill"
    )
    assert "keeps paying for its disk" in stopping_text("runpod-community-4090")
    assert "not known" in stopping_text("lambda-h100-sxm") and "not known" in stopping_text("")
    for entry in list_prices():
        assert bool(entry.stop) == bool(entry.shutdown), entry.name


def test_prices_that_fit_a_machine_are_found_by_its_gpus() -> None:
    fit = [entry.name for entry in fitting_prices("DigitalOcean", "NVIDIA H100 80GB HBM3", 1)]
    assert fit == ["digitalocean-h100"], "not the price of a machine with eight"
    assert {entry.provider for entry in fitting_prices("", "AMD Instinct MI300X", 8)} >= {
        "TensorWave",
        "Vultr",
    }
    assert fitting_prices("Nowhere", "AMD Instinct MI300X", 8) == []


def test_a_budget_goes_by_the_model_that_a_preset_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text("launcher: command\ncommand: ['true']\ngpus: {count: 1, model: MI300X}\n")
    leave_run(StateDirectory(), 1, load_preset(path))
    pair = tuple(
        GpuSnapshot(i, f"GPU-{i}", name, "amd") for i, name in enumerate(("MI210", GPU.name))
    )
    reading = GpuReading(0.0, host_name(), "amd", pair)
    monkeypatch.setattr("tui.cli.cost_plan.read_gpus", lambda _: reading)
    (row,) = plan_lines(StateDirectory(), f"{path}:1")
    assert row.each is not None and row.each.runs == 1


def test_what_is_left_after_the_first_of_two_stages_is_the_second() -> None:
    """The checkpoint says 24 epochs, as many as the parameter: those of the first stage."""
    spec, state = load_preset(REPOSITORY / "presets" / "cascade-tiny.yaml"), StateDirectory()
    found = forecast(state, spec, [], None, done=24)
    assert found is not None and (found.seconds, found.epochs) == (90, 48)
    assert found.basis.endswith(
        "for 24 + 24 epochs, in proportion; for the 24 epochs that are left"
    )
    assert spec.total_of("epoch") == 48


def test_each_stage_counts_with_its_own_epochs_and_its_own_pace(tmp_path: Path) -> None:
    preset, own, other = (tmp_path / name for name in ("demo.yaml", "own.json", "other.json"))
    text = '{"stages": [{"size": 64}, {"size": 128}], "train": {"epochs": 10, "epochs_stage2": %d}}'
    own.write_text(text % 20)
    other.write_text(text % 40)
    preset.write_text(
        f"launcher: python\nscript: train.py\nconfig: {{file: {own}}}\nestimate: {{time: 90m}}\n"
        "parameters: {epochs: {stands_for: train.epochs, value: null, type: int}}\n"
        "total: {parameter: epochs, stages: stages, of_stage: train.epochs_stage}\n"
        "expect: {stages: {stage 1: {per_epoch: 1m}, stage 2: {per_epoch: 4m}}}\n"
    )
    state = StateDirectory().create()

    def seconds(*overrides: str, done: int = 0) -> float | None:
        found = forecast(state, load_preset(preset, overrides), [GPU], None, done=done)
        return None if found is None else found.seconds

    assert seconds() == 90 * 60
    assert seconds(f"config={other}") == (10 + 40 * 4) * 60
    assert seconds("train.epochs_stage2=5") == (10 + 5 * 4) * 60
    assert seconds("train.epochs=20") == seconds("epochs=20") == (20 + 20 * 4) * 60, "a flag wins"
    assert [seconds(done=done) for done in (5, 10, 15, 30)] == [85 * 60, 80 * 60, 60 * 60, 0]
    changed = forecast(state, load_preset(preset, ["train.epochs_stage2=5"]), [GPU], None)
    assert changed is not None and not changed.doubt, "it is reckoned with"
    # By a run of its own: 10 epochs of 1 s and 20 of 5 s, and 5 s around.
    leave_run_of_stages(state, 1, load_preset(preset), (10, 20))
    assert seconds() == 5 + 10 + 100
    assert seconds("train.epochs_stage2=5") == 5 + 10 + 25
    assert seconds("epochs=20") == 5 + 20 + 100
    assert seconds("train.epochs_stage2=5", done=12) == 5 + 15


def test_a_length_that_is_left_to_the_configuration_is_what_that_says(tmp_path: Path) -> None:
    preset, own, other = (tmp_path / name for name in ("demo.yaml", "own.yaml", "other.yaml"))
    own.write_text("train: {epochs: 20, stage1_epochs: 20}\n")
    other.write_text("train: {epochs: 40, stage1_epochs: 20}\n")
    preset.write_text(
        f"launcher: python\nscript: train.py\nconfig: {{file: {own}}}\nestimate: {{time: 100m}}\n"
        "parameters: {epochs: {stands_for: train.epochs, value: null, type: int}}\n"
    )
    state = StateDirectory().create()

    def estimate(*overrides: str) -> tuple[float | None, str, str]:
        found = forecast(state, load_preset(preset, overrides), [GPU], None)
        assert found is not None
        return found.seconds, found.basis, found.doubt

    own_word, in_proportion = "the preset's estimate", "the preset's estimate for 20 epochs, in"
    assert estimate() == (6000, own_word, "")
    for half in ("epochs=10", "train.epochs=10"):
        assert estimate(half) == (3000, f"{in_proportion} proportion", "")
    doubt = "it is for the preset's own"
    twice = (12000, f"{in_proportion} proportion", f"{doubt} config.file")
    assert estimate(f"config={other}") == twice
    assert estimate("train.stage1_epochs=40") == (6000, own_word, f"{doubt} train.stage1_epochs")

    # A program of two stages, its epochs left to the file: it counts twice as many as that says.
    leave_run(state, 1, load_preset(preset), each_s=10.0, epochs=40)
    assert forecast(state, load_preset(preset, ["epochs=10"]), [GPU], None) == Estimate(
        5 + 100 + 19 * 10 + 3, None, "from 1 earlier run on MI300X", 1, 10, 10.0
    )
    assert estimate(f"config={other}") == twice, "it ran by another file"
