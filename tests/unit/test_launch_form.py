"""What stands in the launch form, the spec that it comes to, and the headless words for it."""

import json
from pathlib import Path

import msgspec
import pytest

from runners.cost.estimate import forecast
from runners.model.cluster import SlurmKeys
from runners.model.errors import WrongInput
from runners.model.spec import After, Parameter, RunSpec
from runners.model.states import State
from runners.presets.catalogue import resolve_runs
from runners.presets.command_line import spell_command_line, split_command
from runners.presets.load import command_spec, load_preset
from runners.presets.save import save_preset
from runners.presets.slurm_text import slurm_text
from runners.state.layout import StateDirectory
from tui.cli.arguments import parse
from tui.cli.specs import specs_from
from tui.panel.screens.launch_plan_text import outcome_text
from tui.panel.widgets.launch.common_fields import (
    detail_arguments,
    detail_texts,
    fields_of,
    with_details,
)
from tui.panel.widgets.launch.drafts import RunDraft
from tui.views.runs.form_plan import form_plan

PRESET = """\
launcher: python
interpreter: python3
script: train.py
working_directory: ..
parameters:
  lr: {value: 1e-3, type: float, minimum: 0}
  epochs: 3
  out: {value: '${preset_dir}/out', type: str}
gpus: 2
"""


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("python train.py --lr 1e-3", ["python", "train.py", "--lr", "1e-3"]),
        ("python a.py 'two words' \"a;b\"", ["python", "a.py", "two words", "a;b"]),
        ("cd x && python a.py", ["bash", "-c", "cd x && python a.py"]),
        ("LR=3 python a.py", ["bash", "-c", "LR=3 python a.py"]),
        ('python a.py "$HOME"', ["bash", "-c", 'python a.py "$HOME"']),
        ("python a.py name=run layers=[1,2]", ["python", "a.py", "name=run", "layers=[1,2]"]),
        (r"python a.py \$5", ["python", "a.py", "$5"]),
    ],
)
def test_a_command_is_split_as_a_shell_would_and_spelled_back(typed: str, words: list[str]) -> None:
    assert split_command(typed) == words
    spec = command_spec(words)
    assert split_command(spell_command_line(spec.command)) == words


@pytest.mark.parametrize("typed", ["", "  ", "python 'a"])
def test_what_is_no_command_is_said(typed: str) -> None:
    with pytest.raises(WrongInput):
        split_command(typed)


def test_a_run_that_goes_on_takes_one_value_of_each_parameter() -> None:
    spec = command_spec(["true"])
    parameters = (Parameter("seed", 1, type="int"),)
    spec = msgspec.structs.replace(spec, preset="demo", parameters=parameters)
    assert RunDraft.of(spec).takes_several("seed")
    assert not RunDraft.of(spec, goes_on=True).takes_several("seed")


def own(command: str) -> RunDraft:
    draft = RunDraft.of(command_spec(["true"]), is_new=True)
    draft.command = command
    return draft


def test_an_own_command_is_what_launch_makes_of_the_same_words() -> None:
    draft = own("python train.py '${literal}'")
    draft.gpus = "2"
    spec = draft.spec()
    assert spec.name == "train" and spec.gpus.count == 2
    assert spec.command == command_spec(["python", "train.py", "${literal}"]).command
    assert draft.arguments() == ["--gpus", "2"]
    assert draft.command_arguments() == ["--", "python", "train.py", "${literal}"]


def test_a_shell_s_line_is_called_after_its_script() -> None:
    assert own("cd x && python -u sub/train_big.py | tee log").spec().name == "train_big"
    assert own("echo a; echo b").spec().name == "bash"


def test_an_edited_command_that_goes_on_keeps_its_checkpoint_on_other_machines_too() -> None:
    goes_on = msgspec.structs.replace(
        command_spec(["python", "t.py"]), arguments=("--resume", "a.pt")
    )
    draft = RunDraft.of(goes_on, goes_on=True)
    draft.command = "python t.py --lr 2"
    assert draft.command_changed and draft.spec().arguments == goes_on.arguments
    assert draft.command_arguments()[-4:] == ["--lr", "2", "--resume", "a.pt"]


def test_a_command_that_ran_is_edited_and_keeps_the_rest() -> None:
    ran = msgspec.structs.replace(command_spec(["python", "t.py", "--lr", "1"]), name="first")
    ran = msgspec.structs.replace(ran, checkpoints=("ckpt/*.pt",))
    draft = RunDraft.of(ran)
    assert draft.command == "python t.py --lr 1" and not draft.command_changed
    draft.command = "python t.py --lr 5"
    spec = draft.spec()
    assert draft.command_changed and spec.command[-1] == "5"
    assert (spec.name, spec.checkpoints) == ("first", ("ckpt/*.pt",))


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PRESET)
    draft = RunDraft.of(load_preset(tmp_path / "p.yaml"))
    draft.texts |= {"lr": "abc", "epochs": "1.5"}
    with pytest.raises(WrongInput, match=r"(?s)lr: expected a number.*epochs: expected a whole"):
        draft.spec()


@pytest.mark.parametrize("preset", ["one.yaml", "both.yaml"])
@pytest.mark.parametrize("field", ["1", "4-5", "all", "0"])
def test_what_else_a_preset_says_of_its_gpus_holds_for_other_numbers_of_them(
    tmp_path: Path, preset: str, field: str
) -> None:
    """The form, and the command that it says does the same."""
    wishes = "{count: 2, memory: 40G, model: H100, last: true, allow_foreign: true}"
    (tmp_path / "one.yaml").write_text(PRESET.replace("gpus: 2", f"gpus: {wishes}"))
    (tmp_path / "both.yaml").write_text("runs:\n  - preset: one\n  - {preset: one, name: two}\n")
    spec = resolve_runs(str(tmp_path / preset))[0]
    draft = RunDraft.of(spec)
    draft.gpus = field
    launched = specs_from(parse(["launch", str(tmp_path / preset), *draft.arguments()]))[0]
    assert launched.gpus == draft.request() and launched.gpus != spec.gpus
    assert launched.gpus.memory == 40 << 30 and launched.gpus.foreign and launched.gpus.last


def test_details_become_spec_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = command_spec(["true"])
    texts = detail_texts(spec) | {
        "name": "mine",
        "priority": "5",
        "after": "other:any",
        "price": "1.99",
        "folder": "sub",
        "checkpoints": "a/*.pt b/*.pt",
    }
    changed = with_details(spec, texts)
    assert (changed.name, changed.priority, changed.after) == ("mine", 5, After("other", "any"))
    assert (changed.price, changed.price_basis) == ("1.99", "flag")
    assert changed.working_directory == str(tmp_path / "sub")
    assert changed.checkpoints == ("a/*.pt", "b/*.pt")
    words = detail_arguments(spec, texts)
    assert words[:8] == [
        "--name",
        "mine",
        "--priority",
        "5",
        "--after",
        "other:any",
        "--price",
        "1.99",
    ]
    assert f"working_directory={tmp_path / 'sub'}" in words
    assert json.loads(words[-1].removeprefix("checkpoints=")) == ["a/*.pt", "b/*.pt"]
    assert with_details(spec, detail_texts(spec)) == spec and not detail_arguments(
        spec, detail_texts(spec)
    )


def test_a_field_that_is_emptied_is_so_by_its_command_too(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("launcher: command\ncommand: [echo]\npriority: 5\nprice: '2'\nafter: other\n")
    spec = load_preset(path)
    texts = detail_texts(spec) | dict.fromkeys(("priority", "price", "after"), "")
    arguments = parse(["plan", str(path), *detail_arguments(spec, texts)])
    assert arguments is not None
    (planned,) = specs_from(arguments)
    for found in (planned, with_details(spec, texts)):
        assert (found.priority, found.price, found.after) == (0, None, None)


def test_the_program_s_configuration_and_its_keys_are_fields(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("train: {batch_size: 4, gpu: 7}\ndata: {workers: 2}\n")
    (tmp_path / "p.yaml").write_text(
        "launcher: python\nscript: train.py\ngpus: 0\nconfig: {file: train.yaml}\n"
        "parameters: {batch: {value: 4, stands_for: train.batch_size}}\n"
    )
    (tmp_path / "train.py").write_text("")
    (spec,) = resolve_runs(str(tmp_path / "p.yaml"))
    assert {"config", "keys"} <= {field.key for field in fields_of(spec, False)}
    assert "keys" not in {field.key for field in fields_of(command_spec(["true"]), False)}
    typed = {"config": "other.yaml", "keys": "train.gpu=0 train.batch_size=2"}
    changed = with_details(spec, detail_texts(spec) | typed)
    assert changed.config is not None and changed.config.path == "other.yaml"
    values = {one.name: (one.value, one.config_key) for one in changed.parameters}
    assert values == {"batch": (2, ""), "train.gpu": (0, "train.gpu")}
    words = detail_arguments(spec, detail_texts(spec) | typed)
    assert words == [
        *("--set", "config=other.yaml", "--set", "train.gpu=0", "--set", "train.batch_size=2")
    ]
    with pytest.raises(WrongInput, match="keys"):
        with_details(spec, detail_texts(spec) | {"keys": "train.gpu"})


@pytest.mark.parametrize(("key", "text"), [("priority", "high"), ("after", "x:never")])
def test_a_wrong_detail_names_its_field(key: str, text: str) -> None:
    spec = command_spec(["true"])
    with pytest.raises(WrongInput, match=key):
        with_details(spec, detail_texts(spec) | {key: text})


def _resolved(path: Path) -> RunSpec:
    (spec,) = resolve_runs(str(path))
    return spec


def test_a_saved_preset_loads_as_what_was_in_the_form(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "p.yaml").write_text(PRESET)
    draft = RunDraft.of(load_preset(home / "p.yaml"))
    draft.texts["lr"], draft.gpus = "0.5", "4-5"
    wanted = with_details(draft.spec(), {**detail_texts(draft.spec()), "priority": "3"})
    saved = _resolved(save_preset(wanted, "mine"))
    assert {one.name: one.value for one in saved.parameters} == {
        "lr": 0.5,
        "epochs": 3,
        "out": str(home) + "/out",
    }
    assert (saved.gpus.ids, saved.priority) == (("4", "5"), 3)
    assert saved.working_directory == str(tmp_path), "what was relative to the old file is not"
    with pytest.raises(WrongInput, match="exists already"):
        save_preset(wanted, "mine")
    assert _resolved(save_preset(wanted, "mine", overwrite=True)).priority == 3


def test_a_saved_preset_keeps_what_its_own_says_of_gpus(tmp_path: Path) -> None:
    wishes = (
        "{count: 2, required: true, memory: 40G, model: H100, share: {memory: 20G}, last: true}"
    )
    (tmp_path / "p.yaml").write_text(PRESET.replace("gpus: 2", f"gpus: {wishes}"))
    before = load_preset(tmp_path / "p.yaml")
    draft = RunDraft.of(before)
    for typed in ("4-5", "3"):
        draft.gpus = typed
        saved = _resolved(save_preset(draft.spec(), "mine", overwrite=True)).gpus
        assert before.gpus.chosen(saved) == msgspec.structs.replace(saved, explicit=True)
        assert (saved.count, saved.ids) == (draft.request().count, draft.request().ids)


def test_a_saved_command_runs_the_same_words(tmp_path: Path) -> None:
    draft = own("python train.py '${x}' 3")
    saved = _resolved(save_preset(draft.spec(), "cmd"))
    assert saved.command == draft.spec().command and saved.preset == "cmd"
    leftover = list((tmp_path / "config" / "fresnel-tui" / "presets").iterdir())
    assert [path.name for path in leftover] == ["cmd.yaml"]


@pytest.mark.parametrize("name", ["", "../x", "a b", ".hidden", "x.yaml"])
def test_a_preset_needs_a_name(name: str) -> None:
    with pytest.raises(WrongInput, match="preset name"):
        save_preset(command_spec(["true"]), name)


def test_a_member_s_gpus_are_changed_by_set(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "one.yaml").write_text("launcher: command\ncommand: echo\ngpus: 1\n")
    (folder / "both.yaml").write_text(
        "runs:\n  - preset: one\n    gpus: {ids: '7'}\n  - {preset: one, name: two}\n"
    )
    specs = resolve_runs("both", ["one.gpus=2-3", "two.priority=4"])
    assert [spec.gpus.ids for spec in specs] == [("2", "3"), ()]
    draft = RunDraft.of(specs[0])
    draft.gpus = "5"
    assert draft.arguments() == ["--set", "one.gpus=5"]


@pytest.mark.parametrize(
    "keys",
    [
        None,
        SlurmKeys(),
        SlurmKeys(partition="gpu", time=5400.0, cpus_per_gpu=8, exclusive=True),
        SlurmKeys(time=90061.0),
        SlurmKeys(constraint="a100", extra=("--licenses=a:1", "--nice=5")),
    ],
)
def test_a_run_becomes_a_slurm_job_and_none_again(tmp_path: Path, keys: SlurmKeys | None) -> None:
    """What the form makes of the field is what its command does, headless."""
    path = tmp_path / "job.yaml"
    path.write_text("launcher: command\ncommand: ['true']\nplace: {slurm: {mem: 64G}}\n")
    for spec in (load_preset(path), command_spec(["true"])):
        texts = detail_texts(spec) | {"slurm": slurm_text(keys)}
        changed = with_details(spec, texts)
        assert changed.place.slurm == keys
        words = [str(path)] if spec.source else []
        words += detail_arguments(spec, texts) + ([] if spec.source else ["--", "true"])
        arguments = parse(["plan", *words])
        assert arguments is not None
        (planned,) = specs_from(arguments)
        assert planned.place.slurm == keys


@pytest.mark.parametrize("text", ["maybe", "time", "time=soon", "gpus=4", "extra='--a", "yes no"])
def test_wrong_options_of_slurm_name_the_field(text: str) -> None:
    spec = command_spec(["true"])
    with pytest.raises(WrongInput, match=r"^slurm: "):
        with_details(spec, detail_texts(spec) | {"slurm": text})


def test_what_can_never_start_is_not_shown_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    specs = specs_from(parse(["launch", "--gpu-ids", "7", "--", "true"]))
    plan = form_plan(StateDirectory().create(), specs)
    assert outcome_text(plan, None).plain.startswith(f"{State.FAILED.sign} cannot start")


def test_another_configuration_file_gives_the_form_what_it_gives_a_plan(tmp_path: Path) -> None:
    """Its values, the length and the estimate of a run are those of `plan --set config=FILE`."""
    stages = "stages: [{size: 8}, {size: 16}]\n"
    (tmp_path / "train.yaml").write_text(f"{stages}train: {{epochs: 10, lr: 0.5, stage2: 20}}\n")
    (tmp_path / "other.yaml").write_text(f"{stages}train: {{epochs: 30, lr: 0.7, stage2: 40}}\n")
    path = tmp_path / "p.yaml"
    path.write_text(
        f"launcher: python\nscript: train.py\nworking_directory: {tmp_path}\ngpus: 0\n"
        "config: {file: train.yaml, parameters: {train.lr: {minimum: 0}}}\n"
        "parameters: {epochs: {value: 10, stands_for: train.epochs}}\n"
        "total: {parameter: epochs, stages: stages, of_stage: train.stage}\n"
        "estimate: {time: 1h}\n"
    )
    draft = RunDraft.of(_resolved(path))
    for epochs, typed in (
        ("", {}),
        ("", {"config": "other.yaml"}),
        ("5", {"config": "other.yaml"}),
        ("", {"keys": "train.stage2=5"}),
        ("", {"config": "other.yaml", "keys": "train.stage2=5 train.epochs=9"}),
    ):
        draft.texts["epochs"] = epochs
        texts = detail_texts(draft.spec()) | typed
        words = [*draft.arguments(), *detail_arguments(draft.spec(), texts)]
        arguments = parse(["plan", str(path), *words])
        assert arguments is not None
        (planned,) = specs_from(arguments)
        formed = with_details(draft.spec(), texts)
        for found in ("stage_lengths", "usual_stages", "estimate"):
            assert getattr(formed, found) == getattr(planned, found), (epochs, typed, found)
        values = [
            {one.name: one.effective for one in spec.parameters} for spec in (formed, planned)
        ]
        assert values[0] == values[1], (epochs, typed)
        expected = [forecast(StateDirectory(), spec, [], None) for spec in (formed, planned)]
        assert expected[0] == expected[1] is not None, (epochs, typed)
