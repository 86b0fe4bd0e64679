"""Runs, GPUs and money of another machine are what that machine itself shows, field by field."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.cost.meter import Meter
from runners.model.errors import FresnelError
from runners.model.fingerprint import fingerprint
from runners.model.gpus import GpuProcess, GpuReading, GpuSnapshot, HostSnapshot
from runners.model.health import Condition
from runners.model.run import Checkpoint
from runners.model.states import State
from runners.places.remote import as_of, remote_gpus, remote_leases, remote_row
from runners.places.run_row import RunRow, pack_metrics
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh import thinning
from runners.places.ssh.protocol import MessageReader, pack
from runners.places.ssh.snapshot_updates import (
    LAYOUT,
    SnapshotReader,
    difference,
    require_layout,
    row_to_tree,
    rows_of,
    snapshot_to_tree,
)
from runners.places.ssh.thinning import _LASTED_S, thinned
from runners.state.leases import Lease
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tui.agent.snapshots import place_snapshot
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_query import parse_query

_ROUNDED = {"fraction": 0.001, "eta_s": 5.1, "cost": 0.006, "stop_until": 0.6}
_DIGITS = ("last", "best", "rate")
_OTHERWISE = {"id", "group", "host", "stamp", "packed", "seconds", "remark", "note"}
_STEPS = {
    "utilization": 0.6,
    "memory_utilization": 2.6,
    "memory_used": 32 << 20,
    "temperature_c": 1.1,
    "power_w": 5.1,
    "clock_mhz": 51,
    "memory_clock_mhz": 51,
}
_APART = {"uuid", "mig_parent", "processes", "energy_j", "detail", "xid"}

_number = st.none() | st.floats(-1e6, 1e6)
_count = st.none() | st.integers(0, 10**9)
_words = st.text(max_size=8)
_moment = st.floats(1.7e9, 1.8e9)
_metrics = st.dictionaries(_words, st.tuples(_number, _number, _number), max_size=4)


_ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 99).map(lambda n: f"20261120-101500-demo-{n:04x}"),
        "name": _words,
        "group": _words,
        "remark": _words,
        "note": _words,
        "user": _words,
        "phase": _words,
        "rate_unit": _words,
        "spark": _words,
        "tags": st.lists(_words, max_size=2).map(tuple),
        "created": _moment,
        "started": st.none() | _moment,
        "ended": st.none() | _moment,
        "stop_until": st.none() | _moment,
        "gpus": st.lists(st.integers(0, 9), max_size=3).map(tuple),
        "fraction": st.none() | st.floats(0, 1),
        "step": _count,
        "steps": _count,
        "epoch": _count,
        "epochs": _count,
        "exit_code": st.none() | st.integers(0, 255),
        "seconds": _number,
        "cost": st.none() | st.floats(0, 1e4),
        "eta_s": st.none() | st.floats(0, 1e6),
        "rate": _number,
        "doing": st.none() | st.sampled_from(Condition),
        "checkpoint": st.none()
        | st.tuples(_words, _moment).map(lambda x: Checkpoint(x[0], 7, x[1])),
        "urgent": st.booleans(),
        "starred": st.booleans(),
    }
)


@st.composite
def rows(draw: st.DrawFn) -> RunRow:
    """Any row, whose headline is one of its metrics or none."""
    metrics = draw(_metrics)
    headline = draw(st.sampled_from([None, *metrics]))
    last, best, _ = metrics[headline] if headline is not None else (None, None, None)
    state = draw(st.sampled_from(State))
    return RunRow(
        **draw(_ROW),
        stamp=5,
        preset="demo",
        host="itself",
        state=state,
        is_live=state.is_live,
        headline=headline,
        last=last,
        best=best,
        packed=pack_metrics(metrics, headline),
    )


_GPU = st.fixed_dictionaries(
    {
        "index": st.integers(0, 9),
        "uuid": _words,
        "name": st.sampled_from(["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "AMD Instinct MI300X"]),
        "vendor": st.sampled_from(["nvidia", "amd", "simulated-nvidia", "simulated-amd"]),
        "utilization": st.none() | st.floats(0, 100),
        "memory_used": _count,
        "power_w": st.none() | st.floats(0, 900),
        "temperature_c": st.none() | st.floats(0, 120),
        "clock_mhz": st.none() | st.integers(0, 3000),
        "mig_parent": st.none() | _words,
        "error": st.none() | _words,
        "processes": (st.none() | _words).map(lambda run: (GpuProcess(7, run=run),)),
    }
)
_MONEY = st.none() | st.integers(0, 10**9).map(lambda tenths: Decimal(tenths) / 1000)


@st.composite
def snapshots(draw: st.DrawFn) -> PlaceSnapshot:
    """Any machine."""
    gpus = [GpuSnapshot(**fields) for fields in draw(st.lists(_GPU, max_size=4))]
    uuids = st.lists(_words, max_size=2, unique=True)
    load = HostSnapshot(cpu_percent=draw(_number), disk_free=draw(_count))
    reading = GpuReading(draw(_moment), "itself", "nvml", tuple(gpus), load)
    return PlaceSnapshot(
        host="itself",
        runs={row.id: row for row in draw(st.lists(rows(), max_size=3))},
        reading=draw(st.sampled_from([None, reading])),
        leases={uuid: [Lease(uuid, "run", 0, "demo")] for uuid in draw(uuids)},
        meter=Meter(*(draw(_MONEY) for _ in range(4)), "basis", draw(_MONEY)),
        hidden=draw(st.integers(0, 9)),
    )


def over_a_link(*moments: PlaceSnapshot) -> PlaceSnapshot | None:
    """What the other end has after these snapshots, sent one after the other."""
    sent, reader, known, shown = MessageReader(), SnapshotReader(), None, None
    for moment in moments:
        tree = snapshot_to_tree(thinned(moment))
        fields: dict[str, Any] = {"snapshot": tree}
        if known is not None:
            fields = {"changes": difference(known, tree)}
        known = tree
        for message in sent.feed(pack(fields)):
            shown = reader.take(message.fields)
    return shown


@settings(max_examples=80, deadline=None)
@given(st.lists(snapshots(), min_size=1, max_size=3))
def test_what_was_sent_in_changes_is_what_is_there(moments: list[PlaceSnapshot]) -> None:
    shown = over_a_link(*moments)
    assert shown == thinned(moments[-1])


@settings(max_examples=80, deadline=None)
@given(snapshots(), st.floats(-100, 100))
def test_every_field_of_a_row_is_there_up_to_the_sender_s_rounding(
    snapshot: PlaceSnapshot, clock_offset: float
) -> None:
    shown = over_a_link(snapshot)
    assert shown is not None
    for run_id, here in snapshot.runs.items():
        found = remote_row("box", shown.runs[run_id], clock_offset)
        assert (found.id, found.machine, found.host) == (f"box/{run_id}", "box", "box")
        assert found.group == (f"box/{here.group}" if here.group else "")
        for name in set(RunRow.__struct_fields__) - _OTHERWISE:
            _compare(name, getattr(here, name), getattr(found, name), clock_offset)
        assert found.remark == here.remark and found.note == here.note
        assert here.metrics.keys() == found.metrics.keys()
        for name, values in here.metrics.items():
            for mine, theirs in zip(values, found.metrics[name], strict=True):
                assert theirs == (mine if mine is None else pytest.approx(mine, rel=1e-5)), name
        if here.is_live and here.started is not None:
            # A machine whose clock was set while a run lives says itself how long it has run.
            (timed,) = as_of([found], here.started - clock_offset + 60)
            lasted = 60 if found.seconds is None else here.seconds
            assert timed.seconds == pytest.approx(lasted, abs=_LASTED_S)
        elif not here.is_live:
            assert found.seconds == here.seconds


def _compare(name: str, here: Any, found: Any, clock_offset: float) -> None:
    if here is None:
        assert found is None, name
    elif name in ("created", "started", "ended"):
        assert found == pytest.approx(here - clock_offset, abs=0.001), name
    elif name == "stop_until":
        assert found == pytest.approx(here - clock_offset, abs=_ROUNDED[name]), name
    elif name == "checkpoint":
        assert (found.path, found.bytes) == (here.path, here.bytes)
        assert found.modified == pytest.approx(here.modified - clock_offset, abs=0.001)
    elif name in _ROUNDED:
        assert found == pytest.approx(here, abs=_ROUNDED[name]), name
    elif name in _DIGITS:
        assert found == pytest.approx(here, rel=0.005 if name == "rate" else 1e-5), name
    else:
        assert found == here, name


@settings(max_examples=60, deadline=None)
@given(snapshots())
def test_every_field_of_a_gpu_is_there_up_to_the_sender_s_rounding(
    snapshot: PlaceSnapshot,
) -> None:
    shown = over_a_link(snapshot)
    assert shown is not None
    there = remote_gpus("box", shown, 0.0)
    assert len(there) == len(snapshot.gpus)
    for here, found in zip(snapshot.gpus, there, strict=True):
        assert found.uuid == f"box/{here.uuid}"
        assert found.mig_parent == (here.mig_parent and f"box/{here.mig_parent}")
        for name in set(GpuSnapshot.__struct_fields__) - _APART:
            mine, theirs = getattr(here, name), getattr(found, name)
            if name in _STEPS and mine is not None:
                assert theirs == pytest.approx(mine, abs=_STEPS[name]), name
            else:
                assert mine == theirs, name
    for uuid, leases in snapshot.leases.items():
        held = remote_leases("box", shown)[f"box/{uuid}"]
        assert [lease.run for lease in held] == [f"box/{lease.run}" for lease in leases]


@settings(max_examples=50, deadline=None)
@given(snapshots())
def test_money_is_there_to_the_cent(snapshot: PlaceSnapshot) -> None:
    shown = over_a_link(snapshot)
    assert shown is not None
    for name in ("per_hour", "session", "live_runs", "budget_left", "idle"):
        here, found = getattr(snapshot.meter, name), getattr(shown.meter, name)
        assert (here is None) == (found is None)
        assert here is None or abs(here - found) <= Decimal("0.005")


@settings(max_examples=25, deadline=None)
@given(host=hosts(adoptable=False))
def test_a_machine_s_runs_are_filtered_and_columned_as_on_itself(
    worlds: Worlds, host: DrawnHost
) -> None:
    with worlds(host) as world:
        snapshot = SnapshotFeed(world.state, read_only=True).first_snapshot(30.0)
        assert snapshot is not None
        shown = over_a_link(place_snapshot(snapshot))
        assert shown is not None
        assert [row.id for row in shown.newest_first] == [view.run.id for view in snapshot.runs]
        assert {gpu.uuid: gpu.vendor for gpu in shown.gpus} == {
            gpu.uuid: gpu.vendor for gpu in _gpus_of(snapshot)
        }
        assert shown.leases == snapshot.leases
        for view in snapshot.runs:
            here, found = row_of_view(view), remote_row("box", shown.runs[view.run.id], 0.0)
            for text in ("user:anna", "acc>0.1", "best:loss<5", "loss>1", "tag:paper", "is:live"):
                matches = parse_query(text, snapshot.time)
                assert matches(here) == matches(found), text


def _gpus_of(snapshot: PanelSnapshot) -> tuple[GpuSnapshot, ...]:
    return snapshot.reading.gpus if snapshot.reading is not None else ()


def test_a_mig_instance_stays_nvidia_s() -> None:
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    reading = GpuReading(1.0, "box", "nvml", (GpuSnapshot(0, "u", name, "nvidia"),))
    shown = over_a_link(PlaceSnapshot(reading=reading))
    assert shown is not None
    assert [gpu.vendor for gpu in remote_gpus("box", shown, 0.0)] == ["nvidia"]


def test_a_stop_s_countdown_comes_over() -> None:
    row = msgspec.convert(
        [
            *["20261122-100000-r-0000", 0, "r", "p", "", "stopping", "", "", "", 1.0],
            *[None] * 4,
            [],
            *[None] * 8,
        ],
        RunRow,
    )
    row.stop_until = 130.0
    (found,) = rows_of([json.loads(json.dumps(msgspec.to_builtins(row_to_tree(row))))])
    assert remote_row("box", found, 30.0).stop_until == 100.0


@pytest.mark.parametrize(
    "fields",
    [
        {"snapshot": {"runs": {"a": ["a", 0, "name"]}}},
        {"snapshot": {"runs": [1]}},
        {"snapshot": {"reading": {"gpus": 7}}},
        {"snapshot": {"runs": {str(i): [] for i in range(10_001)}}},
        {"changes": {"runs": 7}},
        {"changes": {"hidden": ["many"]}},
    ],
)
def test_what_is_something_else_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        SnapshotReader().take(fields)


def test_another_version_is_refused_and_says_what_helps() -> None:
    require_layout({"layout": LAYOUT})
    for asked in ({}, {"layout": "0" * 12}):
        with pytest.raises(FresnelError) as refused:
            require_layout(asked)
        assert "set it up again" in refused.value.hint


def test_fields_that_change_have_another_fingerprint() -> None:
    def layout(*fields: Any, inner: type = int) -> str:
        within = msgspec.defstruct("Within", [("value", inner)])
        return fingerprint(msgspec.defstruct("Row", [*fields, ("within", within | None)]))

    one = layout(("a", int), ("b", str))
    assert one == layout(("a", int), ("b", str))
    others = {
        layout(("b", str), ("a", int)),
        layout(("a", int), ("c", str)),
        layout(("a", float), ("b", str)),
        layout(("a", int), ("b", str), ("c", bool)),
        layout(("a", int), ("b", str), inner=str),
    }
    assert one not in others and len(others) == 5


def test_an_idle_machine_has_nothing_to_say() -> None:
    gpu = GpuSnapshot(0, "u", "H100", "nvidia", utilization=50.2, power_w=301.0, energy_j=5.0)
    later = msgspec.structs.replace(gpu, utilization=49.9, power_w=299.0, energy_j=900.0)
    moments = [
        PlaceSnapshot(reading=GpuReading(moment, "box", "nvml", (one,)))
        for moment, one in ((1.0, gpu), (2.0, later))
    ]
    before, after = [snapshot_to_tree(thinned(moment)) for moment in moments]
    assert difference(before, after) == {}


def test_a_cost_that_is_not_nothing_stays_so() -> None:
    assert thinning.cents(0.001) == 0.001 and thinning.cents(0.0) == 0.0
    assert thinning.cents(1.239) == 1.24 and thinning.cents(None) is None
