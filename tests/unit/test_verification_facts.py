"""Facts for the checks before a launch: ports, files, checkpoints, keys, imports, disk."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.lifecycle.launch.planner import plan_run
from runners.model.plan import LaunchPlan
from runners.model.spec import FileRule, Parameter, Retention, RunSpec, Scaling
from runners.scheduling.allocation import Allocation
from runners.scheduling.queue_order import Granted
from runners.state.layout import StateDirectory
from runners.verify.checkpoint_facts import checkpoint_facts, named_checkpoint
from runners.verify.collect import collect
from runners.verify.config_facts import unread_keys
from runners.verify.data_facts import path_facts, rule_facts
from runners.verify.program_facts import ask_interpreter, imports_of, present_script
from runners.verify.resource_facts import (
    batch_facts,
    disk_facts,
    output_facts,
    port_facts,
    written_before,
)
from tests.support import make_plan


def parameter(name: str, value: Any) -> Parameter:
    kind: Any = "str" if isinstance(value, str) else "int"
    return Parameter(name, value, value, kind, f"--{name}")


def spec(*parameters: Parameter, **more: Any) -> RunSpec:
    return RunSpec("demo", "demo", "python", parameters=parameters, **more)


def test_ports_by_every_spelling() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for argv in (
            ("t", f"--master_port={port}"),
            ("t", "--master-port", str(port)),
            ("a", f"--main_process_port={port}"),
            ("t", f"--rdzv-endpoint=host:{port}"),
            ("t", "--rdzv_endpoint", f"host:{port}"),
        ):
            (found,) = port_facts(make_plan(argv=argv), {})
            assert (found.port, found.free) == (port, False), argv
        (found,) = port_facts(make_plan(), {"MASTER_PORT": str(port)})
        assert (found.basis, found.free) == ("MASTER_PORT", False)
    assert not list(port_facts(make_plan(argv=("t", "--port", "80")), {}))
    for port in ("70000", "9" * 5000):
        (found,) = port_facts(make_plan(), {"MASTER_PORT": port})
        assert (found.port, found.free) == (None, False) and len(found.basis) < 50
    assert not list(port_facts(make_plan(argv=("t", "--rdzv-endpoint=host:0")), {}))


def test_files_are_counted_sized_and_paired(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for name, size in (("a", 4), ("b", 4), ("c", 3)):
        (tmp_path / f"{name}.jpg").write_bytes(b"x" * size)
    (tmp_path / "f" / "a_base.bin").touch()
    (tmp_path / "f" / "b.bin").touch()
    rule = FileRule("*.jpg", size=(4, 4), pairs=("f/{stem}.bin|f/{stem}_base.bin",))
    found = rule_facts(rule, [f"{tmp_path}/*.jpg", f"{tmp_path}/c.*"], tmp_path)
    assert (found.found, found.wrong, found.wrong_sizes) == (3, 1, (("c.jpg", 3),))
    assert (found.lacking, found.missing) == (1, ("f/c.bin",))


def test_the_rows_of_a_list_are_looked_for_beside_it_and_where_it_runs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "list.csv").write_text("base_path\n# a comment\none\ntwo\nhere/three\n")
    (tmp_path / "here").mkdir()
    for path in (data / "one_pc.npz", tmp_path / "here" / "three_pc.npz"):
        path.touch()
    rule = FileRule("list.csv", rows=("{row}_pc.npz",))
    found = rule_facts(rule, [str(data / "list.csv")], tmp_path)
    assert (found.rows, found.lacking, found.missing) == (3, 1, ("two_pc.npz",))


def test_paths_of_parameters_and_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    given = spec(
        parameter("data_dir", "there"),
        parameter("path", "gone/train.csv"),
        parameter("dataset_path", "allenai/c4"),
        parameter("name", "some/thing"),
    )
    config = {"data.eval_path": "./eval.csv", "x.data_dir": "replaced", "out_dir": "o/p"}
    found = path_facts(given, tmp_path, {}, tmp_path / "run", None, config)
    assert [(one.parameter, not one.absence, one.maybe_name) for one in found] == [
        ("data_dir", True, False),
        ("path", False, False),
        ("dataset_path", False, True),
        ("data.eval_path", False, False),
    ]


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("resume", "old.pt", True),
        ("model", "runs/epoch_3.pth", True),
        ("model", "bert-base-uncased", False),
        ("model", "resnet50.a1", False),
        ("resume", "auto", False),
        ("epochs", "3.pt", False),
    ],
)
def test_which_parameter_names_a_checkpoint(
    name: str, value: str, named: bool, tmp_path: Path
) -> None:
    found = named_checkpoint(spec(parameter(name, value)), tmp_path)
    assert found == (tmp_path / value if named else None)


def test_a_checkpoint_without_python_is_only_looked_at_for_being_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    assert "no such file" in checkpoint_facts(path, None, {}, None).problem
    path.write_bytes(b"PK\x03\x04 cut short")
    assert "incomplete" in checkpoint_facts(path, None, {}, None).problem
    path.write_bytes(b"legacy")
    assert "no Python" in checkpoint_facts(path, None, {}, None).unseen


def test_imports_that_always_happen(tmp_path: Path) -> None:
    script = tmp_path / "pkg" / "train.py"
    script.parent.mkdir()
    (script.parent / "own.py").touch()
    script.write_text(
        "import os, torch\nfrom PIL import Image\nimport own\nimport pkg.own\n"
        "try:\n    import wandb\nexcept ImportError:\n    wandb = None\n"
        "def f():\n    import scipy\n"
    )
    assert list(imports_of(script)) == ["torch", "PIL"]
    assert present_script(["python", "-u", "pkg/train.py", "x.py"], tmp_path) == script
    assert present_script(["mytool", "pkg/train.py"], tmp_path) is None
    script.write_text("def broken(:\n")
    assert not list(imports_of(script))


def test_keys_that_no_source_has(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("lr = cfg['lr']\nsize = cfg[f'batch_size_{stage}']\n")
    keys = ["train.lr", "train.batch_size_stage1", "train.momentun"]
    assert unread_keys(keys, script) == ("train.momentun",)


def test_how_many_checkpoints_are_to_come(tmp_path: Path) -> None:
    def number(given: RunSpec, **plan: Any) -> int | None:
        fields = {"checkpoints": (f"{tmp_path}/*.pt",), "total_epochs": 100} | plan
        found = disk_facts(given, make_plan(**fields), None)
        assert found is not None and found.free > 0 and found.folder == str(tmp_path)
        return found.number

    assert number(spec(keep=Retention(3, 1, 10))) == 14
    assert number(spec(parameter("keep", 3), parameter("checkpoint_every", 5))) == 4
    assert number(spec(parameter("keep", 0), parameter("checkpoint_every", 5))) == 20
    assert number(spec(parameter("keep_last_n", 3), parameter("saveIter", 10))) == 14
    assert number(spec()) is None


def test_outputs_that_others_made(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "epoch_3.pt").touch()
    os.utime(tmp_path / "out" / "epoch_3.pt", (1000, 1000))
    plan = make_plan(
        directory=str(tmp_path / "run"),
        working_directory=str(tmp_path),
        checkpoints=(f"{tmp_path}/run/*.pt",),
    )
    state = StateDirectory(tmp_path / "state").create()
    (found,) = output_facts(state, spec(parameter("checkpoint_dir", "out")), plan)
    assert (found.files, found.newest) == (1, "epoch_3.pt") and found.age_s > 1e6
    assert not list(output_facts(state, spec(), plan))
    assert written_before(state, spec()) is None


def test_the_batch_and_what_a_probe_found() -> None:
    plan: LaunchPlan = make_plan(processes=4)
    given = spec(parameter("bs", 64), scaling=Scaling("bs", "global"))
    found = batch_facts(given, plan, None)
    assert found is not None and (found.each, found.total, found.devices) == (16, 64, 4)
    assert batch_facts(spec(), plan, None) is None


def test_a_checkpoint_is_opened_by_the_python_of_the_run_s_own_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    (tmp_path / "a.pt").touch()
    spec = RunSpec(
        "demo", "demo", "command", command=("nice", "python", "train.py"),
        environment={"PATH": f"{python.parent}:/usr/bin:/bin"}, working_directory=str(tmp_path),
        parameters=(parameter("resume", "a.pt"),),
    )  # fmt: skip
    asked = []
    monkeypatch.setattr(
        "runners.verify.collect.checkpoint_facts", lambda *words: asked.append(words)
    )
    state = StateDirectory(tmp_path)
    run = state.run("20261120-101500-demo-7f3a")
    collect(state, plan_run(run, spec, Granted(Allocation()), None, None), ("checkpoint",))
    assert [words[1] for words in asked] == [str(python)]


@pytest.mark.parametrize("line", ["sys.path.insert(0, 'lib')", "pass"])
def test_a_script_may_say_itself_where_its_modules_are(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.py").write_text(f"import sys\n{line}\nimport mine\n")
    found = ask_interpreter([sys.executable, "t.py"], tmp_path, os.environ)
    assert found is not None and found.imports["mine"]
    assert found.extends_path is (line != "pass")
