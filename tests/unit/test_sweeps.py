"""Several values on one command line, flags changed by name, and the median rule."""

import math

import pytest

from runners.guard.hopeless import Course, hopeless
from runners.model.errors import WrongInput
from runners.model.spec import GpuRequest
from runners.presets.flags import change_flag, change_flags, flag_names
from runners.presets.load import command_spec
from runners.presets.sweeps import as_sweep, expand
from runners.scheduling.queue_order import Candidate, Granted, Waiting, decide


def overrides(*words: str, **more: int) -> list[list[str]]:
    return [one.overrides for one in expand(words, lambda key: key != "text", **more)]  # type: ignore[arg-type]


def test_a_grid_has_every_combination_the_last_key_fastest() -> None:
    assert overrides("lr=1,2", "fixed=7", "seed=0..2") == [
        [f"lr={lr}", "fixed=7", f"seed={seed}"] for lr in (1, 2) for seed in (0, 1, 2)
    ]
    variant = expand(["parameters.lr=1e-4,3e-4", "seed=0"], lambda _: True)[1]
    assert variant.varied == {"lr": "3e-4"} and variant.label == "lr3e-4"
    assert overrides("x=0..10..5", "y=0.1..0.3..0.1")[-1] == ["x=10", "y=0.3"]


def test_a_comma_in_a_text_or_list_is_a_comma_and_braces_make_values_of_it() -> None:
    assert overrides("text=a,b") == [["text=a,b"]]
    assert overrides("lr=[1, 2]") == [["lr=[1, 2]"]]
    assert overrides("text={a,b}") == [["text=a"], ["text=b"]]
    assert overrides("text=1..3") == [["text=1..3"]]
    mapping = "text={times: 3, arguments: ['--resume', '${checkpoint}']}"
    assert overrides(mapping) == [[mapping]]
    assert overrides("lr=1e-3") == [["lr=1e-3"]]


def test_samples_lie_in_their_ranges_and_come_again() -> None:
    words = ("lr=1e-5..1e-3:log", "layers=2..8", "kind=a,b", "drop=0..0.5")
    found = overrides(*words, samples=40)
    rates = [float(one[0].partition("=")[2]) for one in found]
    assert len(found) == 40 and all(1e-5 <= rate <= 1e-3 for rate in rates)
    assert 8 < sum(rate < 1e-4 for rate in rates) < 32, "even in the logarithm"
    assert {one[1] for one in found} <= {f"layers={n}" for n in range(2, 9)}
    assert {one[2] for one in found} == {"kind=a", "kind=b"}
    assert found == overrides(*words, samples=40) != overrides(*words, samples=40, seed=1)


@pytest.mark.parametrize(
    ("words", "samples", "said"),
    [
        (["lr=1e-5..1e-3"], None, "has to be sampled"),
        (["seed=0..999"], None, "200 runs are the most"),
        (["a=0..19", "b=0..19"], None, "400 combinations"),
        (["lr=1,"], None, "is missing"),
        (["lr=0..1:log"], 3, "begins above 0"),
        (["lr=3..1"], 3, "ends before"),
        (["lr=1"], 3, "nothing varies"),
        (["lr=0..1e308..1e-10"], None, "200 runs are the most"),
        (["lr=-1e308..1e308"], 3, "too large"),
        (["lr=-1e308..1e308..1"], None, "too large"),
        (["seed=9007199254740993..9007199254740994"], None, "too large"),
        (["lr=1,2"], 0, "expected 1 to 200"),
    ],
)
def test_what_makes_no_sweep_is_said(words: list[str], samples: int | None, said: str) -> None:
    with pytest.raises(WrongInput, match=said):
        expand(words, lambda _: True, samples)


def test_flags_are_changed_where_they_stand() -> None:
    words = ["python", "t.py", "--lr", "3e-4", "--batch-size=8", "--amp", "-b", "2", "optim.wd=0"]
    assert flag_names(words) == ["lr", "batch-size", "amp", "b", "optim.wd"]
    changes = {"lr": "5", "batch_size": "9", "amp": "false", "b": "-3", "optim.wd": "1"}
    for name, value in changes.items():
        words = change_flag(words, name, value) or []
    assert words == ["python", "t.py", "--lr", "5", "--batch-size=9", "-b", "-3", "optim.wd=1"]
    assert change_flag(words, "nothing", "1") is None
    added = change_flags(words, ["--lr", "7", "--amp", "--betas", "0.9", "0.99", "--name=x"])
    assert added[2:4] == ["--lr", "7"] and added[-5:] == [
        "--amp", "--betas", "0.9", "0.99", "--name=x",
    ]  # fmt: skip
    assert change_flags(added, ["--amp"]) == added
    with pytest.raises(ValueError, match="expected a flag"):
        change_flags(words, ["train.py"])


def candidates(count: int, parallel: int | None) -> list[Candidate]:
    return [
        Candidate(f"r{i}", GpuRequest(), created=float(i), group="g", parallel=parallel)
        for i in range(count)
    ]


def test_at_most_so_many_of_a_sweep_start_and_the_others_say_why_they_wait() -> None:
    verdicts = decide(candidates(4, 2), None, {}, {}, running={"g": 1})
    assert [type(verdicts[f"r{i}"]) for i in range(4)] == [Granted, Waiting, Waiting, Waiting]
    waits = verdicts["r1"]
    assert isinstance(waits, Waiting) and waits.reason == "g runs 2 at a time"
    unlimited = decide(candidates(4, 0), None, {}, {}, running={"g": 9})
    assert all(isinstance(one, Granted) for one in unlimited.values())


def course(*values: float) -> Course:
    return Course(list(range(1, len(values) + 1)), values)


def test_the_median_rule_stops_what_is_worse_than_the_others_were() -> None:
    good = {f"good{i}": course(0.5, 0.4, 0.3, 0.2, 0.1, 0.1) for i in range(3)}
    bad = {"bad": course(0.9, 0.9, 0.9, 0.8, 0.8)}
    found = hopeless({**good, **bad}, [*good, "bad"], False, "loss")
    assert list(found) == ["bad"] and "median of 3 others 0.3" in found["bad"]
    assert not hopeless({**good, **bad}, [*good], False, "loss"), "it has ended"
    assert not hopeless({**good, "bad": course(0.9, 0.9, 0.9, 0.9)}, ["bad"], False, "loss")
    two = {name: good[name] for name in ("good0", "good1")}
    assert not hopeless({**two, **bad}, ["bad"], False, "loss"), "too few to judge by"
    ahead = {"bad": course(*[0.9] * 9)}
    assert not hopeless({**good, **ahead}, ["bad"], False, "loss"), "nobody has come as far"
    lost = {"lost": course(*[math.nan] * 5)}
    assert "lost" in hopeless({**good, **lost}, ["lost"], False, "loss")
    up = {f"up{i}": course(1, 2, 3, 4, 5) for i in range(3)}
    assert hopeless({**up, "low": course(1, 1, 1, 1, 1)}, ["low", "up0"], True, "psnr").keys() == {
        "low"
    }


def test_names_of_runs_say_which_secret_not_what_it_is() -> None:
    variants = expand(["api_key=SEKRETA,SEKRETB", "lr=0.1,0.2"], lambda key: True)
    assert [variant.label for variant in variants] == [
        *("api_key1-lr0.1", "api_key1-lr0.2", "api_key2-lr0.1", "api_key2-lr0.2"),
    ]
    assert variants[2].overrides == ["api_key=SEKRETB", "lr=0.1"]
    (first, _) = expand(["environment.GH_PAT=a1b2c3,d4e5f6"], lambda key: True)
    assert first.label == "GH_PAT1"


@pytest.mark.parametrize(
    ("name", "names", "group"),
    [
        ("trial", ["trial-lr1e-3-seed0", "trial-lr1e-4-seed0"], "trial-"),
        ("lr {lr}", ["lr 1e-3", "lr 1e-4"], "lr-"),
        ("{lr} of {seed}", ["1e-3 of 0", "1e-4 of 0"], "of-"),
        ("{lr}", ["1e-3", "1e-4"], "true-"),
        ("{other}", ["{other}-lr1e-3-seed0", "{other}-lr1e-4-seed0"], "true-"),
    ],
)
def test_a_sweep_s_name_has_places_for_values(name: str, names: list[str], group: str) -> None:
    spec = command_spec(["true"])
    values = [{"lr": "1e-3", "seed": "0"}, {"lr": "1e-4", "seed": "0"}]
    runs = as_sweep([(spec, one) for one in values], name)
    assert [run.name for run in runs] == names
    assert {run.group.startswith(group) for run in runs} == {True}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("100000.5..100003.5..1", ["100000.5", "100001.5", "100002.5", "100003.5"]),
        ("1e-14..3e-14..1e-14", ["1e-14", "2e-14", "3e-14"]),
        ("0.1234561..0.1234563..1e-7", ["0.1234561", "0.1234562", "0.1234563"]),
        ("-2..2..2", ["-2", "0", "2"]),
    ],
)
def test_no_value_of_a_range_with_a_step_is_rounded(text: str, values: list[str]) -> None:
    assert overrides(f"x={text}") == [[f"x={value}"] for value in values]


@pytest.mark.parametrize("text", ["100001.0..100009.0", "0.5..0.99999", "0.123451..0.123452:log"])
def test_what_is_drawn_from_a_narrow_range_lies_in_it(text: str) -> None:
    low, high = map(float, text.removesuffix(":log").split(".."))
    drawn = [float(run[0][2:]) for run in overrides(f"x={text}", samples=100)]
    assert all(low <= value <= high for value in drawn) and len(set(drawn)) > 50


@pytest.mark.parametrize("twice", [("lr=1,2", "lr=3"), ("lr=3", "parameters.lr=1,2")])
def test_what_varies_is_given_once(twice: tuple[str, str]) -> None:
    with pytest.raises(WrongInput, match="given twice"):
        overrides(*twice)
