"""A sweep whose values optuna suggests: asked when a run's turn comes, told when it has ended, and
nothing lost when anybody is killed in between.
"""

import json
import math
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.host.files import replace
from runners.host.identity import host_name
from runners.lifecycle.control.prune import Criteria, prune
from runners.lifecycle.launch.sampled_runs import read_search
from runners.model.errors import FresnelError
from runners.model.sampler_search import Search, SearchAxis
from runners.presets.sampler_flag import SAMPLERS
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.command_text import RANGES_ONLY, at_a_time, better, no_sampler, suggested, will_suggest
from tests.process.conftest import CommandLine
from tests.support import eventually, make_plan

optuna = pytest.importorskip("optuna")

from runners.lifecycle.launch import sampler_study  # noqa: E402

SEARCH = Search("tpe", (SearchAxis("lr", (), 1e-5, 1e-3, log=True), SearchAxis("k", ("a", "b"))), 8)


@pytest.fixture
def state() -> StateDirectory:
    return StateDirectory().create()


def make_ended(state: StateDirectory, run_id: str, ending: str = "done", **best: float) -> None:
    """A run of this host that has ended, and the best values that were kept of it."""
    directory = state.run(run_id)
    directory.path.mkdir(parents=True)
    replace(directory.plan, msgspec.json.encode(make_plan(run_id)))
    now = time.time()
    record = {"state": ending, "started": now, "ended": now, "exit_code": 0, "host": host_name()}
    replace(directory.state, msgspec.json.encode(record))
    metrics = {
        name: {"last": value, "step": 9, "count": 9, "minimum": value, "maximum": value}
        for name, value in best.items()
    }
    final = {"ended": now, "progress": {}, "metrics": metrics, "headline": "loss"}
    replace(directory.path / "final.json", msgspec.json.encode(final))


def make_live(state: StateDirectory, run_id: str) -> None:
    """A run that another host has recorded as running."""
    directory = state.run(run_id)
    directory.path.mkdir(parents=True)
    replace(directory.plan, msgspec.json.encode(make_plan(run_id)))
    replace(directory.state, msgspec.json.encode({"state": "running", "host": "there"}))


def trials(state: StateDirectory, group: str) -> list[Any]:
    """The trials as optuna itself reads them from its journal."""
    backend = optuna.storages.journal.JournalFileBackend(str(state.sweeps / group / "journal.log"))
    storage = optuna.storages.JournalStorage(backend)
    return list(optuna.load_study(study_name=group, storage=storage).trials)


def test_each_run_gets_its_values_when_its_turn_comes(cli: CommandLine) -> None:
    Path(cli.folder, "t.sh").write_text('echo "epoch: 1/1 | loss: $2" # {nothing}\n')
    done = cli.run(
        "launch", "--gpus", "0", "--name", "found", "--set", "lr=0.5..4.0", "--samples", "3",
        "--sampler", "tpe", "--", "sh", "t.sh", "--lr", "{lr}",
    )  # fmt: skip
    assert at_a_time(3, 1) in done.stderr and will_suggest("lr", "tpe") in done.stderr
    ids = done.stdout.split()
    ended = [cli.ended(cli.state.run(run_id)) for run_id in ids]
    assert [one["state"] for one in ended] == ["done"] * 3, ended
    group = ended[0]["group"]

    def all_told() -> bool:
        record = read_search(cli.state, group)
        return record is not None and all(one.reported for one in record.trials.values())

    eventually(all_told, what="the last result told by nobody but its own ending")
    known = trials(cli.state, group)
    assert [trial.user_attrs["run"] for trial in known] == ids
    values = [f"{trial.params['lr']:.6g}" for trial in known]
    assert len(set(values)) == 3
    for run_id, text, trial in zip(ids, values, known, strict=True):
        plan = read_run(cli.state, run_id).plan
        assert plan is not None and plan.argv[-2:] == ("--lr", text)
        assert f"lr{float(text):.3g}" in plan.spec.name
        assert any(suggested(f"lr={text}") in note for note in plan.notes)
        assert not any(will_suggest("lr", "tpe") in note for note in plan.notes)
        assert trial.value == pytest.approx(float(text))
    again = cli.json("plan", "--again", ids[1])
    assert again["argv"][-1] == values[1], "launched again, it has the values it had"


def test_a_preset_s_parameters_are_suggested_within_what_they_may_be(cli: CommandLine) -> None:
    Path(cli.folder, "mine.yaml").write_text(
        "launcher: command\ncommand: [echo, 'loss: 1']\ngpus: 0\n"
        "parameters: {lr: {value: 0.1, minimum: 0.01, maximum: 1.0}, layers: 2}\n"
    )
    swept = ("./mine.yaml", "--set", "layers=1..4", "--samples", "2", "--sampler")
    beyond = cli.run("launch", "--set", "lr=0.1..2.0", *swept, "tpe", exits=2).stderr
    assert "lr=2" in beyond and "1" in beyond
    refused = cli.run("launch", "--set", "lr=0.1..1.0", *swept, "tpe:quality", exits=2).stderr
    assert better("quality") in refused and "--sampler tpe:quality:max" in refused
    refused = cli.run("launch", "--set", "lr=0.1..1.0", *swept, "best", exits=2).stderr
    assert no_sampler("best") in refused
    missing = cli.run("launch", "./mine.yaml", "--set", "lr=0.1,0.2", "--sampler", "tpe", exits=2)
    assert "--samples N" in missing.stderr
    drawn = cli.json("plan", "--set", "lr=0.1..1.0", *swept, "random")
    assert len(drawn) == 2
    plan = cli.json("plan", "--set", "lr=0.1..1.0", *swept, "tpe:quality:max")[0]
    assert will_suggest("lr, layers", "tpe") in plan["notes"]


def test_without_the_extra_it_is_named(cli: CommandLine) -> None:
    away = Path(cli.folder, "away")
    away.mkdir()
    (away / "sitecustomize.py").write_text("import sys\nsys.modules['optuna'] = None\n")
    path = f"{away}:{cli.environment({})['PYTHONPATH']}"
    said = cli.run(
        "launch", "--gpus", "0", "--set", "lr=1..4", "--samples", "2", "--sampler", "tpe", "--json",
        "--", "echo", "{lr}", exits=2,
        PYTHONPATH=path, PYTHONHASHSEED="0",  # which is for an interpreter's own start
    )  # fmt: skip
    error = json.loads(said.stdout)["error"]
    assert "needs optuna" in error["message"] and "fresnel-tui[optuna]" in error["hint"]
    assert cli.json("list") == []


def test_the_same_run_gets_the_same_answer_and_results_are_told(state: StateDirectory) -> None:
    make_live(state, "r1")
    first = sampler_study.ask(state, "g", SEARCH, "r1")
    assert sampler_study.ask(state, "g", SEARCH, "r1").trial == first.trial
    assert first.known == "from 0 results" and len(trials(state, "g")) == 1
    (state.run("r1").path / "state.json").unlink()
    (state.run("r1").path / "plan.json").unlink()
    state.run("r1").path.rmdir()
    make_ended(state, "r1", loss=0.25, psnr=30.0)
    make_live(state, "r2")
    second = sampler_study.ask(state, "g", SEARCH, "r2")
    assert second.known == "from 1 result" and second.trial.values != first.trial.values
    assert [trial.value for trial in trials(state, "g")] == [0.25, None]


def test_failed_removed_and_unclaimed_trials_are_no_results(state: StateDirectory) -> None:
    search = msgspec.structs.replace(SEARCH, metric="psnr", higher=True)
    endings = {"best": ("done", 31.0), "worse": ("stopped", 20.0), "lost": ("failed", 99.0)}
    for run_id in (*endings, "gone", "mute"):
        make_live(state, run_id)
        sampler_study.ask(state, "g", search, run_id)
    for run_id in (*endings, "gone", "mute"):
        for name in ("state.json", "plan.json"):
            (state.run(run_id).path / name).unlink()
        state.run(run_id).path.rmdir()
    for run_id, (ending, value) in endings.items():
        make_ended(state, run_id, ending, psnr=value)
    make_ended(state, "mute", loss=0.1)
    sampler_study.report_results(state, "g", search)
    found = {trial.user_attrs["run"]: trial.value for trial in trials(state, "g")}
    assert found == {"best": 31.0, "worse": 20.0, "lost": None, "gone": None, "mute": None}
    backend = optuna.storages.journal.JournalFileBackend(str(state.sweeps / "g" / "journal.log"))
    study = optuna.load_study(study_name="g", storage=optuna.storages.JournalStorage(backend))
    assert study.best_trial.user_attrs["run"] == "best"
    # Somebody asked, and was killed before it could say for which run.
    study.ask({"lr": optuna.distributions.FloatDistribution(1e-5, 1e-3, log=True)})
    make_live(state, "next")
    assert (
        sampler_study.ask(state, "g", search, "next").known == "from 2 results of psnr, 4 without"
    )


def test_a_half_written_line_costs_only_itself(state: StateDirectory) -> None:
    make_live(state, "r1")
    first = sampler_study.ask(state, "g", SEARCH, "r1").trial
    journal = state.sweeps / "g" / "journal.log"
    with journal.open("ab") as file:
        file.write(b'{"op_code":5,"worker_id":"')
    make_live(state, "r2")
    sampler_study.ask(state, "g", SEARCH, "r2")
    assert sampler_study.ask(state, "g", SEARCH, "r1").trial == first
    assert len(trials(state, "g")) == 2
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    with pytest.raises(FresnelError, match="tpe cannot be asked"):
        sampler_study.ask(state, "g", SEARCH, "r3")


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_every_sampler_chooses_within_its_ranges_and_learns(
    state: StateDirectory, name: str
) -> None:
    for package in SAMPLERS[name]:
        pytest.importorskip(package)
    axes = (SearchAxis("lr", (), 1e-6, 1e-1, log=True), SearchAxis("k", (), 0, 12, whole=True))
    search = Search(name, (*axes, SearchAxis("kind", ("a", "b", "c"))), 16)
    chosen, far = [], []
    for i in range(16):
        values = sampler_study.ask(state, "g", search, f"r{i}").trial.values
        chosen.append(tuple(values.values()))
        far.append(abs(math.log10(float(values["lr"])) + 3) + abs(int(values["k"]) - 6) / 4)
        make_ended(state, f"r{i}", loss=far[-1])
    assert len(set(chosen)) == 16 and {kind for _, _, kind in chosen} == {"a", "b", "c"}
    assert all(1e-6 <= float(lr) <= 1e-1 and 0 <= int(k) <= 12 for lr, k, _ in chosen)
    known = trials(state, "g")
    assert sum(trial.value is not None for trial in known) == 15, "all but the last are told"
    if name == "cmaes":
        assert all("cma:generation" in trial.system_attrs for trial in known[5:])
    if name == "gp":
        assert min(far[8:]) < min(far[:4]), "its model found a better place than chance"


def test_cmaes_runs_from_the_command_line_and_leaves_choices_to_chance(cli: CommandLine) -> None:
    pytest.importorskip("cmaes")
    Path(cli.folder, "t.sh").write_text('echo "epoch: 1/1 | loss: $1"\n')
    swept = ("launch", "--gpus", "0", "--samples", "5", "--sampler", "cmaes", "--set", "o={a,b}")
    command = ("--", "sh", "t.sh", "{lr}", "{k}", "{o}")
    said = cli.run(*swept, "--set", "lr=1,2", *command, exits=2).stderr
    assert RANGES_ONLY in said and "tpe" in said
    assert cli.json("list") == []
    done = cli.run(*swept, "--set", "lr=0.5..4.0", "--set", "k=1..9", *command)
    assert "o: drawn at random" in done.stderr
    assert done.stderr.count("cmaes suggests values when its turn comes") == 2, "said once, noted"
    ended = [cli.ended(cli.state.run(run_id)) for run_id in done.stdout.split()]
    assert [one["state"] for one in ended] == ["done"] * 5, ended
    used = [trial for trial in trials(cli.state, ended[0]["group"]) if trial.system_attrs]
    assert len(used) == 2, "after three at random"


@pytest.mark.parametrize("name", ["gp", "cmaes", "qmc"])
def test_what_a_sampler_needs_besides_is_named_before_anything_is_queued(
    cli: CommandLine, name: str
) -> None:
    away, needed = Path(cli.folder, "away"), SAMPLERS[name][1:]
    away.mkdir()
    lines = [f"sys.modules[{package!r}] = None\n" for package in needed]
    (away / "sitecustomize.py").write_text("".join(["import sys\n", *lines]))
    said = cli.run(
        "launch", "--gpus", "0", "--set", "lr=1.0..4.0", "--samples", "2", "--sampler", name,
        "--json", "--", "echo", "{lr}", exits=2,
        PYTHONPATH=f"{away}:{cli.environment({})['PYTHONPATH']}", PYTHONHASHSEED="0",
    )  # fmt: skip
    error = json.loads(said.stdout)["error"]
    assert f"needs {' and '.join(needed)}" in error["message"]
    assert f"pip install {' '.join(needed)}" in error["hint"]
    assert cli.json("list") == []


def test_the_folder_of_a_search_goes_with_its_last_run(cli: CommandLine) -> None:
    make_ended(cli.state.create(), "20261120-101500-demo-7f3a", loss=1.0)
    folder = cli.state.sweeps / "g"
    sampler_study.ask(cli.state, "g", SEARCH, "20261120-101500-demo-7f3a")
    prune(cli.state, Criteria(keep=5))
    assert folder.is_dir()
    prune(cli.state, Criteria(keep=0))
    assert not folder.exists()
