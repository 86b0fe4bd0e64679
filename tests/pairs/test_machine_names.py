"""The header counts the machines, and the dollars, that `cost` counts: one under two names once."""

import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runners.cost.accounting import to_decimal
from runners.cost.all_machines import AllMachines, add_up, is_at_least
from runners.cost.machines import MachineAccount, close_account, read_machines, write_account
from runners.cost.meter import Meter
from runners.cost.sessions import Session
from runners.host.clock import Moment
from runners.model.spec import Price
from runners.places.snapshot import PlaceSnapshot
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.support import account_of
from tui.snapshot.remote_meter import RemoteMeter, remote_meters

HOUR = 3600.0


class Name(NamedTuple):
    """A name of a machine, and how it stands with it: what was kept is so many hours old."""

    machine: int
    is_down: bool
    has_snapshot: bool
    old: int
    boot: int
    """How often the machine has been restarted since."""
    ended: bool
    """Whether another session was open there then."""


NAMES = st.lists(
    st.builds(
        Name,
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
        st.integers(1, 5),
        st.integers(0, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def session_of(machine: int, before: bool, now: float) -> Session | None:
    """A machine's session, or the one before it; the third has none."""
    if machine == 2:
        return None
    began = Moment(now - (20 if before else 8) * HOUR)
    rate = Price(str(machine + 2), "machine", "session")
    return Session(began.wall, "own", rate, 1, id=f"{machine} {before}", began=began)


def place_of(name: str, one: Name, now: float, state: StateDirectory) -> Any:
    """A machine as the panel watches it, with its account as it was kept."""
    last = now - one.old * HOUR if one.is_down else now
    session = session_of(one.machine, one.ended and one.is_down and not one.boot, now)
    then = Moment(last, f"boot {one.machine} {one.boot if one.is_down else 0}")
    missed = last + 60 if one.is_down else None
    account = MachineAccount(f"own-{one.machine}", then, last, session, missed=missed)
    (state.remote / name).mkdir(parents=True, exist_ok=True)
    write_account(state, name, account)
    spent = None if session is None else to_decimal(account_of(session, Moment(now)).total)
    rate = None if session is None else session.rate
    meter = Meter(rate, spent, None, None, "")
    snapshot = PlaceSnapshot(host=account.own, session=session, meter=meter)
    seen = snapshot if one.has_snapshot or not one.is_down else None
    return SimpleNamespace(
        name=name, snapshot=seen, came=last, clock_offset=0.0, is_down=one.is_down
    )


def both(
    state: StateDirectory, names: list[Name]
) -> tuple[list[RemoteMeter], AllMachines, list[str]]:
    """What the header counts, what `cost` adds up, and the names it counts."""
    now = time.time()
    named = {f"box{at}": one for at, one in enumerate(names)}
    places = [place_of(name, one, now, state) for name, one in named.items()]
    machines = read_machines(state, [*named])
    here: Any = SimpleNamespace(sessions=[], problem="")
    counted = [machine.name for machine in machines if not machine.same_as]
    return remote_meters(state, places), add_up(here, machines), counted


@settings(max_examples=150, deadline=None, phases=[Phase.generate], derandomize=True)
@given(names=NAMES)
def test_header_and_cost_count_the_same_machines(
    tmp_path_factory: pytest.TempPathFactory, names: list[Name]
) -> None:
    state = StateDirectory(tmp_path_factory.mktemp("state")).create()
    meters, together, counted = both(state, names)
    assert [meter.name for meter in meters] == counted
    assert sum((meter.per_hour or Decimal(0) for meter in meters), Decimal(0)) == together.per_hour
    spent = sum((meter.spent or Decimal(0) for meter in meters), Decimal(0))
    assert float(spent) == pytest.approx(float(together.total), abs=0.01)
    open_ones = read_machines(state, [f"box{at}" for at in range(len(names))])
    about = any(is_at_least(one) and one.session for one in open_ones if not one.same_as)
    assert any(meter.is_at_least for meter in meters) == about


def test_of_two_names_that_do_not_answer_that_which_did_last_speaks(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    before = Name(0, is_down=True, has_snapshot=True, old=3, boot=0, ended=True)
    meters, together, _ = both(state, [before, before._replace(old=2, ended=False)])
    assert [float(meter.spent or 0) for meter in meters] == [pytest.approx(8 * 2, abs=0.01)]
    assert float(together.total) == pytest.approx(8 * 2, abs=0.01)


def test_a_second_name_that_answers_speaks_for_the_first_that_does_not(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).create()
    dark = Name(0, is_down=True, has_snapshot=True, old=3, boot=0, ended=True)
    meters, together, counted = both(state, [dark, dark._replace(is_down=False, ended=False)])
    assert counted == ["box0"] and [meter.name for meter in meters] == ["box0"]
    assert not together.at_least and not any(meter.is_at_least for meter in meters)
    assert float(together.total) == pytest.approx(8 * 2, abs=0.01), "the session that is open now"


def test_removing_one_of_two_names_ends_nothing(cli: CommandLine) -> None:
    state = cli.state.create()
    up = Name(1, is_down=False, has_snapshot=True, old=1, boot=0, ended=False)
    both(state, [up, up])
    close_account(state, "box0", ["box0", "box1"], is_gone=False)
    (left,) = read_machines(state, ["box1"])
    assert left.session is not None and left.name == "box1"
    assert float(left.total) == pytest.approx(8 * 3, abs=0.01)


def test_a_machine_that_ended_costs_nothing_more_under_any_name(cli: CommandLine) -> None:
    state = cli.state.create()
    up = Name(1, is_down=False, has_snapshot=True, old=1, boot=0, ended=False)
    both(state, [up, up])
    close_account(state, "box1", ["box0", "box1"])
    machines = read_machines(state, ["box0", "box1"])
    assert [machine.session for machine in machines] == [None, None]
    (counted,) = [machine for machine in machines if not machine.same_as]
    assert float(counted.total) == pytest.approx(8 * 3, abs=0.01)
