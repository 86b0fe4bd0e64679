"""Presets and configurations with values that nobody means: refused in words, or checked as far."""

import os
import subprocess
import warnings
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from runners.doctor.host_facts import read_host
from runners.doctor.state_checks import check_leftovers
from runners.host.procfs import MARK, all_marks
from runners.lifecycle.launch.planner import plan_runs
from runners.model.course import Expectation
from runners.model.errors import FresnelError, UnknownPreset, WrongInput
from runners.model.plan import LaunchPlan
from runners.model.spec import FileRule, RunSpec
from runners.presets.catalogue import find_preset, list_presets
from runners.presets.config_file import MOST_KEYS, read_config
from runners.presets.load import load_preset
from runners.presets.save import save_preset
from runners.state.layout import StateDirectory
from runners.verify.checkpoint_facts import checkpoint_facts
from runners.verify.checkpoint_tool import CheckpointToolError, ask_checkpoint_tool
from runners.verify.data_facts import rule_facts
from runners.verify.facts import ConfigFacts, DiskFacts, LaunchFacts
from runners.verify.host_checks import check_shared_memory
from runners.verify.resource_checks import check_disk
from runners.verify.resource_facts import disk_facts, output_facts
from runners.verify.verify import verify
from tests.support import eventually, make_plan

BATCH = """parameters: {{batch_size: {{type: float, value: {0}}}, lr: 0.1}}
scaling: {{batch: batch_size, learning_rate: lr, base_batch: 8, base_rate: 0.1, rule: {1}}}
"""
LENGTH = "parameters: {{epochs: {{type: float, value: {0}}}}}\ntotal: {{parameter: epochs}}\n"


def preset(tmp_path: Path, keys: str) -> RunSpec:
    path = tmp_path / "odd.yaml"
    path.write_text(f"launcher: command\ncommand: [python3, -c, '1']\n{keys}")
    return load_preset(path)


@pytest.mark.parametrize(
    "keys",
    [
        *(BATCH.format(value, "linear") for value in (".inf", ".nan", "-.inf", "-1", "0")),
        BATCH.format("-1", "sqrt"),
        *(LENGTH.format(value) for value in (".inf", ".nan", "-.inf")),
        "parameters: {epochs: 9, save_every: .nan, keep: .inf}\ntotal: {parameter: epochs}\n",
    ],
)
def test_a_number_that_counts_nothing_is_planned_and_checked(tmp_path: Path, keys: str) -> None:
    state = StateDirectory(tmp_path / "state")
    state.create()
    specs = [preset(tmp_path, keys)]
    assert plan_runs(state, specs)[0].plan.total_epochs in (None, 9)
    (found,) = verify(state, specs, ["batch", "disk", "network", "memory", "outputs"])
    assert not found.failures


@pytest.mark.parametrize(
    "keys",
    [
        "metrics: {patterns: ['(?P<loss>a{99999999999})']}\n",
        f"metrics: {{patterns: ['{'(' * 3000}(?P<loss>a){')' * 3000}']}}\n",
        "expect: {utilization: []}\n",
        "checks: {files: [{path: x, count: []}]}\n",
        "checks: {files: [{path: x, size: [1, 2, 3]}]}\n",
        f"estimate: {{cost: {'9' * 40}}}\n",
        f"expect: {{memory: {'9' * 400}}}\n",
        f"limits: {{time: {'9' * 400}}}\n",
        f"expect: {{samples_per_second_per_gpu: {'9' * 400}}}\n",
        "metrics: {patterns: [{line: '(?P<a>1)', offset: {a: .nan}}]}\n",
    ],
)
def test_a_value_that_is_none_is_refused_where_it_stands(tmp_path: Path, keys: str) -> None:
    with pytest.raises(WrongInput, match=r"odd\.yaml:3: "):
        preset(tmp_path, keys)


def test_a_price_beyond_sums_is_refused(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    state.create()
    with pytest.raises(FresnelError):
        plan_runs(state, [preset(tmp_path, f"price: '{'9' * 40}'\n")])


@pytest.mark.parametrize(
    ("keys", "file", "words"),
    [
        ("parameters: {clip: .inf}\n", "", ("--clip", "inf")),
        ("parameters: {clip: {value: -.inf, minimum: -.inf, maximum: .inf}}\n", "", None),
        ("parameters: {clip: {type: list, value: [.inf, .nan, 1]}}\n", "", None),
        ("parameters: {clip: {value: .inf, choices: [.inf, 1.0]}}\n", "", None),
        ("parameters: {clip: {value: 3, type: str}}\n", "", ("--clip", "3")),
        ("config: {file: c.yaml, parameters: {clip: null}}\n", "clip: .inf\n", None),
        *(
            (
                "config: {file: c.yaml}\nparameters: {clip: {type: list, stands_for: clip}}\n",
                file,
                None,
            )
            for file in ("clip: [[1, 2], [3]]", "clip: [{a: 1}]", "clip: [1, null]", "clip: .inf")
        ),
    ],
)
def test_a_plan_is_read_as_it_was_written(
    tmp_path: Path, keys: str, file: str, words: tuple[str, ...] | None
) -> None:
    (tmp_path / "c.yaml").write_text(file)
    state = StateDirectory(tmp_path / "state")
    state.create()
    plan = plan_runs(state, [preset(tmp_path, f"working_directory: {tmp_path}\n{keys}")])[0].plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=LaunchPlan) == plan
    assert words is None or plan.argv[-2:] == words
    assert "config" not in keys or not plan.config_changes


def test_a_number_without_end_may_be_typed(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "launcher: command\ncommand: [a]\nparameters: {clip: {value: 1.0, maximum: 9}}\n"
    )
    assert (
        load_preset(path, ["clip=-.inf"]).parameters == load_preset(path, ["clip=-inf"]).parameters
    )
    with pytest.raises(WrongInput):
        load_preset(path, ["clip=inf"])
    with pytest.raises(WrongInput):
        load_preset(path, [f"clip={'9' * 400}"])


def test_a_bracket_in_an_expression_is_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        preset(tmp_path, "metrics: {patterns: ['[[]loss (?P<loss>[0-9]+)']}\n")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", f"{'a' * 300}.yaml"])
def test_a_preset_s_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(UnknownPreset):
        find_preset(name)


def test_a_configuration_folder_that_cannot_be_looked_into_has_no_presets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [entry.name for entry in list_presets()]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ("x" * 300)))
    assert set(listed) >= {entry.name for entry in list_presets()} >= {"example"}
    with pytest.raises(FresnelError):
        save_preset(preset(tmp_path, ""), "mine")


def test_a_process_that_names_no_run_is_none_of_an_ended_one(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    state.create()
    with ExitStack() as stack:
        for mark in ("x" * 5000, ".", "..", "../../etc"):
            marked = {**os.environ, MARK: mark}
            child = stack.enter_context(subprocess.Popen(["sleep", "60"], env=marked))
            stack.callback(child.kill)
            eventually(lambda mark=mark: mark in all_marks())
        assert [found.verdict for found in check_leftovers(state)] == ["PASS"]


def test_aliases_of_aliases_in_a_configuration_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}}}" for i in range(1, 40)]
    path = tmp_path / "c.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(WrongInput, match=f"{MOST_KEYS:,}"):
        read_config(path)


@pytest.mark.parametrize(
    "text",
    ["\ufeffa: 1\nb: 'ü'\nc: 3\n", "a: 1\r\nb: ü  # x\r\nc: 3\r\n", "a: {x: 😀, y: 2}\nb: 'ü'\n"],
)
def test_every_value_of_a_configuration_is_where_it_is_said_to_be(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(text.encode())
    found = read_config(path)
    for key, (start, end) in found.places.items():
        assert found.text[start:end].strip("'") == str(found.values[key])
    assert found.values["b"] == "ü"


@pytest.mark.parametrize("text", ['{"a": 1, /* b', '{"a": 1, "b'])
def test_json_that_does_not_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text + '/* \\"' * 20_000)
    with pytest.raises(WrongInput):
        read_config(path)


def test_braces_in_the_names_of_files_stand_for_themselves(tmp_path: Path) -> None:
    for name in ("a.png", "a_{0}.jpg", "{a}.jpg"):
        (tmp_path / name).touch()
    for pair, there in (("{stem}_{0}.jpg", True), ("{{stem}}.jpg", True), ("{stem!x}", False)):
        found = rule_facts(FileRule("*.png", pairs=(pair,)), [f"{tmp_path}/*.png"], tmp_path)
        assert (found.lacking == 0, found.problem) == (there, "")


def test_checkpoints_of_no_bytes_fill_no_disk() -> None:
    disk = DiskFacts("/data", 0, 0, 3, 60.0, "as in run x")
    (found,) = check_disk(LaunchFacts(RunSpec("a", "a", "command"), make_plan(), disk=disk))
    assert found.verdict == "FAIL"


def test_never_and_all_are_no_numbers_of_checkpoints(tmp_path: Path) -> None:
    keys = "parameters: {epochs: 90, save_every: -1, keep: -1, checkpoint-every: 30}\n"
    spec = preset(tmp_path, keys + "total: {parameter: epochs}\n")
    plan = msgspec.structs.replace(make_plan(total_epochs=90), spec=spec)
    found = disk_facts(spec, plan, None)
    assert found is not None and found.number == 3


def test_outputs_in_a_folder_with_brackets_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "out[1]"
    folder.mkdir()
    (folder / "last.pt").touch()
    spec = preset(tmp_path, f"parameters: {{output_dir: '{folder}'}}\n")
    (found,) = output_facts(StateDirectory(tmp_path / "state"), spec, make_plan())
    assert (found.files, found.newest) == (1, "last.pt") and found.pattern.startswith(str(folder))


def test_a_folder_that_begins_like_another_is_none_of_its(tmp_path: Path) -> None:
    spec = preset(tmp_path, f"parameters: {{output_dir: '{tmp_path}/out'}}\n")
    plan = make_plan(checkpoints=(f"{tmp_path}/output/*.pt",))
    found = output_facts(StateDirectory(tmp_path / "state"), spec, plan)
    assert f"{tmp_path}/out/*.p*t*" in [one.pattern for one in found]


def test_a_batch_without_end_in_a_configuration_asks_for_no_memory() -> None:
    values = {"batch_size": float("inf"), "num_workers": 2}
    spec = RunSpec("a", "a", "command", expect=Expectation(shared_memory_per_sample=100))
    config = ConfigFacts("c", values)
    (found,) = check_shared_memory(LaunchFacts(spec, make_plan(), config=config, host=read_host()))
    assert found.name == "shared memory"


def test_what_is_no_utf_8_in_the_words_of_the_checkpoint_tool(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf 'a \\377 b' >&2; printf '\\377'\n")
    python.chmod(0o755)
    with pytest.raises(CheckpointToolError) as caught:
        ask_checkpoint_tool(str(python), {"do": "inspect", "paths": []}, dict(os.environ))
    assert caught.value.message == "a � b"


def test_a_checkpoint_that_is_pruned_meanwhile_is_not_compared_with(tmp_path: Path) -> None:
    python, path = tmp_path / "python", tmp_path / "a.bin"
    python.write_text('#!/bin/sh\necho "[{}]"\n')
    python.chmod(0o755)
    path.write_bytes(b"x")
    found = checkpoint_facts(path, str(python), dict(os.environ), tmp_path / "gone.pt")
    assert (found.problem, found.compared_with) == ("", "")
