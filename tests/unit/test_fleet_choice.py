"""Which of several machines a launch starts on, by what they answered."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from runners.model.plan import LaunchPlan
from runners.model.spec import Price
from runners.model.trailing_command import with_flags
from runners.places.actions import Outcome
from runners.places.fleet.asking import judge, plan_command
from runners.places.fleet.choosing import Fit, Offer, choose, is_hopeless, kept_by
from runners.places.fleet.dispatcher import launch_command, start_dispatcher
from runners.places.fleet.waiting import WaitingLaunch, new_launch, save_launch
from runners.state.layout import StateDirectory
from tests.support import make_plan


def _free(machine: str, rate: str | None, left: int = 0) -> Offer:
    return Offer(machine, Fit.FREE, rate=None if rate is None else Decimal(rate), left=left)


BUSY = Offer("busy", Fit.BUSY, "0 of 2 free")
UNFIT = Offer("unfit", Fit.UNFIT, "no GPU here is a H100")
GONE = Offer("gone", Fit.UNKNOWN, "not reached since 12:04")


def test_the_cheapest_that_is_free_is_chosen() -> None:
    offers = [BUSY, _free("dear", "7.96"), _free("cheap", "1.99"), UNFIT, GONE]
    assert choose(offers).machine == "cheap"


def test_without_a_price_is_not_free_of_charge() -> None:
    assert choose([_free("unknown", None), _free("known", "9")]).machine == "known"


def test_of_equal_prices_the_fullest_is_filled() -> None:
    assert choose([_free("empty", "2", left=7), _free("full", "2", left=0)]).machine == "full"


def test_without_a_free_one_every_machine_says_why() -> None:
    choice = choose([BUSY, UNFIT, GONE])
    assert choice.machine is None
    assert all(offer.reason in choice.reason for offer in (BUSY, UNFIT, GONE))


def test_only_what_no_machine_can_ever_run_is_given_up() -> None:
    assert is_hopeless([UNFIT])
    assert not is_hopeless([UNFIT, GONE])
    assert not is_hopeless([UNFIT, BUSY])
    assert not is_hopeless([])


def test_a_waiting_launch_keeps_the_machines_that_it_may_start_on() -> None:
    assert kept_by([BUSY, UNFIT, GONE]) == {"busy"}


def _answer(plan: LaunchPlan, **more: object) -> Outcome:
    value = msgspec.to_builtins(plan) | {"denied": None, "waits": None} | more
    return Outcome(output=msgspec.json.encode(value).decode())


def test_a_plan_is_an_offer_with_its_rate() -> None:
    plan = make_plan(price=Price("3.98", "machine", "session"))
    assert judge("amd", _answer(plan), 3) == Offer("amd", Fit.FREE, "", Decimal("3.98"), 3)
    assert judge("amd", _answer(plan, waits="busy"), 0).fit is Fit.BUSY
    assert judge("amd", _answer(plan, denied="no such GPU"), 0).fit is Fit.UNFIT


def _several(waits: Sequence[str | None]) -> Outcome:
    plans = [json.loads(_answer(make_plan(), waits=each).output) for each in waits]
    return Outcome(output=json.dumps(plans))


def test_a_sweep_begins_where_some_of_its_runs_can_first_where_most() -> None:
    some = judge("amd", _several([None, None, "busy"]), 2)
    assert some.fit is Fit.FREE
    assert judge("amd", _several([None, "busy"]), 1, at_once=True).fit is Fit.BUSY
    assert judge("amd", _several(["busy", "busy"]), 0).fit is Fit.BUSY
    choice = choose([_free("dear", "9"), some, BUSY])
    assert (choice.machine, choice.waits) == ("dear", False)
    assert choose([some, BUSY]).waits


def test_of_what_is_no_plan_nothing_is_known() -> None:
    assert judge("amd", Outcome(output="{", problem="broke\nmore"), 1).fit is Fit.UNKNOWN
    assert judge("amd", Outcome(output='{"error": {"message": "no preset"}}'), 1).fit is Fit.UNFIT


def _launch(*given: str) -> WaitingLaunch:
    return WaitingLaunch("1", ("launch", *given), "any", "/", 0.0, asked="amd", choice="amd: $1")


def test_a_command_of_ones_own_is_planned_without_itself() -> None:
    planned = plan_command(_launch("--gpus", "2", "--", "python", "t.py"), lambda *_: ())
    assert planned[-2:] == ["--", "true"]
    assert "--gpus" in planned


def test_a_sweep_of_a_command_is_planned_with_the_places_of_its_values() -> None:
    given = ("--early-stop", "median", "--no-queue", "--set", "lr=1,2", "--set=seed=0..2")
    launch = _launch(*given, "--", "python", "t.py", "--lr={lr}", "{seed}", "{other}")
    launch = msgspec.structs.replace(launch, overrides=("lr=1,2", "seed=0..2"))
    planned = plan_command(launch, lambda *_: ())
    assert planned[planned.index("--") :] == ["--", "true", "{lr}", "{seed}"]
    # `plan` knows neither.
    assert not {"--early-stop", "median", "--no-queue"} & set(planned)


def test_a_pushed_preset_is_planned_with_its_things_there() -> None:
    seen = []

    def flags(preset: str, given: object) -> list[str]:
        seen.append((preset, given))
        return ["--set", "data=/there"]

    launch = msgspec.structs.replace(
        _launch("--gpus", "2", "mine", "--set=lr=1"), preset="mine", overrides=("lr=1",)
    )
    assert plan_command(launch, flags)[-2:] == ["--set", "data=/there"]
    assert seen == [("mine", ("lr=1",))]


def test_the_machine_stands_before_the_command() -> None:
    given = launch_command(_launch("--gpus", "1", "--", "sh", "--host", "x"), waits=False)
    assert given[given.index("--") :] == ["--", "sh", "--host", "x"]
    assert given[given.index("--host") + 1] == "amd"
    assert "--no-queue" in given
    assert "--no-queue" not in launch_command(_launch("--", "true"), waits=True)


def test_variables_stay_here_until_it_starts() -> None:
    launch = _launch("--env", "KEY", "--env=OTHER", "mine", "--", "sh", "--env", "x")
    planned = plan_command(launch, lambda *_: ())
    assert not {"--env", "KEY", "--env=OTHER"} & set(planned)
    assert "mine" in planned


def test_a_launch_is_called_by_its_own_flags_not_by_those_of_its_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    program = ("--", "python", "train.py", "--name", "theirs", "--priority", "9")
    plain = new_launch(("launch", "--gpus", "1", *program), "any", True, {})
    named = new_launch(("launch", "--name=mine", "--priority", "2", *program), "any", True, {})
    assert (plain.name, plain.priority) == ("python", 0)
    assert (named.name, named.priority) == ("mine", 2)
    assert with_flags(named.command, "--no-queue")[4:6] == ["--no-queue", "--"]


def test_who_waits_starts_one_process_for_the_queue_until_that_has_its_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten were started while the first was still being imported."""
    started = []
    monkeypatch.setattr("runners.host.helpers.spawn", lambda *words: started.append(words))
    state = StateDirectory()
    start_dispatcher(state)
    assert not started
    save_launch(state, new_launch(("launch", "--", "true"), "any", True, {}))
    for _ in range(3):
        start_dispatcher(state)
    assert started == [("fleet-queue", state.root)]
