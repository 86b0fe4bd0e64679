"""`--set KEY=VALUE`: parameters by their type, any other key of a preset, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from runners.model.errors import WrongInput
from runners.model.program import GpuShare
from runners.model.spec import After, GpuRequest, Rung, RunSpec
from runners.presets.load import command_spec, load_preset
from tui.views.panel_options import spread_overrides

PRESET = """\
launcher: command
command: 'true'
parameters:
  epochs: {value: 5, minimum: 1, maximum: 100}
  lr: 1e-4
  name: resnet
  amp: true
  betas: [0.9, 0.999]
  opt: {value: adam, choices: [adam, sgd], flag: -o}
  resume: {value: null, type: str}
  limit: {value: null, type: float}
"""


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    path = tmp_path / "exp.yaml"
    path.write_text(PRESET)
    return path


def value(spec: RunSpec, name: str) -> Any:
    """The value of one parameter."""
    return {parameter.name: parameter.value for parameter in spec.parameters}[name]


@pytest.mark.parametrize(
    ("override", "name", "expected"),
    [
        ("epochs=10", "epochs", 10),
        ("parameters.epochs=10", "epochs", 10),
        (" epochs =10", "epochs", 10),
        ("epochs=010", "epochs", 10),
        ("lr=3e-5", "lr", 3e-5),
        ("lr=1", "lr", 1.0),
        ("name=12", "name", "12"),
        ("name=no", "name", "no"),
        ("name=a=b", "name", "a=b"),
        ("name=", "name", ""),
        ("name=null", "name", None),
        ("name=[x", "name", "[x"),
        ("amp=false", "amp", False),
        ("amp=null", "amp", None),
        ("betas=[0.5, 0.6]", "betas", [0.5, 0.6]),
        ("betas=0.5,0.6", "betas", [0.5, 0.6]),
        ("betas=0.5", "betas", [0.5]),
        ("opt=sgd", "opt", "sgd"),
        ("resume=/a b/c.pt", "resume", "/a b/c.pt"),
        ("limit=3", "limit", 3.0),
    ],
)
def test_a_parameter_is_set_by_its_type(
    preset: Path, override: str, name: str, expected: Any
) -> None:
    found = value(load_preset(preset, [override]), name)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("epochs=0", "--set epochs=0: expected at least 1, got 0"),
        ("epochs=101", "--set epochs=101: expected at most 100, got 101"),
        ("epochs=many", "--set epochs=many: expected a whole number, got 'many'"),
        ("epochs=1.5", "--set epochs=1.5: expected a whole number, got 1.5"),
        ("amp=no", "--set amp=no: expected true or false, got 'no'"),
        ("lr=fast", "--set lr=fast: expected a number, got 'fast'"),
        ("opt=adan", "--set opt=adan: expected one of adam, sgd, got 'adan'"),
        ("epoch=3", "--set epoch=3: exp has no parameter or key `epoch`; did you mean `epochs`?"),
        ("parameters.nope=3", "has no parameter or key `parameters.nope`"),
        ("gpu=1", "did you mean `gpus`?"),
        ("epochs", "--set epochs: expected KEY=…"),
        ("=3", "--set =3: expected KEY=…"),
        ("gpus=-1", "--set gpus=-1: expected 0 or more GPUs, got -1"),
        ("gpus.count=x", "--set gpus.count=x: expected one of all, or a whole number"),
        ("tty=maybe", "--set tty=maybe: expected true or false, got text"),
        ("stop.ladder=[]", "--set stop.ladder=[]: expected a list of length >= 1"),
        ("stop.laddr=x", "--set stop.laddr=x: unknown key; did you mean `ladder`?"),
        ("launcher=torchrunn", "did you mean `torchrun`?"),
        (
            "name=${run_dri}",
            "--set name=${run_dri}: ${run_dri} is not known; did you mean ${run_dir}?",
        ),
        ("environment.A-B=1", "a variable's name has letters, digits and _"),
    ],
)
def test_a_wrong_override_is_named_as_it_was_typed(preset: Path, override: str, words: str) -> None:
    with pytest.raises(WrongInput) as caught:
        load_preset(preset, [override])
    assert words in str(caught.value)


def test_any_key_of_a_preset_can_be_set(preset: Path) -> None:
    spec = load_preset(
        preset,
        [
            "gpus=0-2",
            "description=another try",
            "environment.A=1",
            "environment.B=no",
            "stop.target=group",
            "stop.ladder=[SIGTERM 2s]",
            "tty=true",
            "price=2.50",
            "arguments=[-v, 3]",
        ],
    )
    assert spec.gpus.ids == ("0", "1", "2")
    assert (spec.description, spec.terminal, spec.price) == ("another try", True, "2.5")
    assert spec.environment == {"A": "1", "B": "no"}
    assert (spec.stop.target, spec.stop.ladder[0]) == ("group", Rung("SIGTERM", 2.0))
    assert spec.arguments == ("-v", "3")


def test_the_last_of_two_overrides_wins_and_the_default_stays_the_file_s(preset: Path) -> None:
    spec = load_preset(preset, ["epochs=7", "epochs=9"])
    (epochs,) = (parameter for parameter in spec.parameters if parameter.name == "epochs")
    assert (epochs.value, epochs.default) == (9, 5)


WISHES = "{count: 2, memory: 40G, last: true}"


@pytest.mark.parametrize(
    ("said", "overrides", "request_"),
    [
        ("3", ["gpus.required=true"], GpuRequest(3, required=True)),
        ("2", ["gpus.memory=1G"], GpuRequest(2, memory=1 << 30)),
        ("0-1", ["gpus.last=true"], GpuRequest(ids=("0", "1"), last=True)),
        ("all", ["gpus.share.memory=1G"], GpuRequest("all", share=GpuShare(1 << 30))),
        (None, ["gpus.memory=1G"], GpuRequest(1, memory=1 << 30)),
        ("{memory: 1G}", [], GpuRequest(1, memory=1 << 30)),
        (WISHES, ["gpus=5"], GpuRequest(5, memory=40 << 30, last=True, explicit=True)),
        (
            WISHES,
            ["gpus=0-1"],
            GpuRequest(ids=("0", "1"), memory=40 << 30, last=True, explicit=True),
        ),
        (WISHES, ["gpus.ids=3"], GpuRequest(ids=("3",), memory=40 << 30, last=True, explicit=True)),
        (
            WISHES,
            ["gpus=all", "gpus.last=false"],
            GpuRequest("all", memory=40 << 30, explicit=True),
        ),
        ("{ids: 0-1, last: true}", ["gpus.count=1"], GpuRequest(1, last=True, explicit=True)),
        (WISHES, ["gpus={count: 1}"], GpuRequest(1, explicit=True)),
    ],
)
def test_an_override_of_gpus_leaves_what_else_is_said_of_them(
    preset: Path, said: str | None, overrides: list[str], request_: GpuRequest
) -> None:
    preset.write_text(PRESET + (f"gpus: {said}\n" if said else ""))
    assert load_preset(preset, overrides).gpus == request_


def test_a_key_of_the_long_form_leaves_what_the_short_form_said(preset: Path) -> None:
    preset.write_text(PRESET + "restart: 3\nafter: other\n")
    spec = load_preset(preset, ["restart.backoff=7s", "after.on=any"])
    assert (spec.restart.times, spec.restart.backoff_s) == (3, 7.0)
    assert spec.after == After("other", "any")
    preset.write_text(PRESET + "restart: {times: 3, backoff: 60s}\n")
    again = load_preset(preset, ["restart=5"]).restart
    assert (again.times, again.backoff_s) == (5, 60.0)


def test_a_command_takes_overrides_and_keeps_its_words(tmp_path: Path) -> None:
    spec = command_spec(["sh", "-c", "echo ${HOME} $${x}"], ["environment.A=1", "gpus=0"], "try")
    assert spec.command == ("sh", "-c", "echo $${HOME} $$${x}")
    assert (spec.name, spec.preset, spec.environment, spec.gpus.count) == (
        "try",
        "command",
        {"A": "1"},
        0,
    )


def test_nothing_behind_the_dashes_is_wrong_input() -> None:
    with pytest.raises(WrongInput, match="no command after --"):
        command_spec([])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("launch p --set a=1 b=2 c=3 --follow", "launch p --set a=1 --set b=2 --set c=3 --follow"),
        ("launch --set a=1 p --name x=y", "launch --set a=1 p --name x=y"),
        ("launch --set=a=1 config.lr=2 p", "launch --set=a=1 --set config.lr=2 p"),
        ("launch --set a=1 --set b=2 c=3", "launch --set a=1 --set b=2 --set c=3"),
        ("launch --set a --set b=2 p q=1", "launch --set a --set b=2 p q=1"),
        ("list loss<=1 a=2", "list loss<=1 a=2"),
    ],
)
def test_what_follows_an_override_and_looks_like_one_is_one(typed: str, meant: str) -> None:
    assert spread_overrides(typed.split()) == meant.split()
    assert spread_overrides(meant.split()) == meant.split()


@pytest.mark.parametrize("text", ["12.10", "007", "0x1F", "1e3", "1.0", "3", "inf"])
def test_a_number_for_a_program_stands_as_it_is_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"launcher: command\ncommand: echo\nenvironment: {{A: {text}}}\narguments: [{text}]\n"
    )
    spec = load_preset(path, [f"environment.B={text}"])
    assert spec.environment == {"A": text, "B": text} and spec.arguments == (text,)
