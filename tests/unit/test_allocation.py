"""A wish for GPUs is met, or refused with the reason and the holder."""

import time
from typing import Any

import pytest

from runners.host.clock import time_of_day
from runners.model.gpus import UNREAD, GpuDetail, GpuProcess, GpuReading, GpuSnapshot
from runners.model.spec import GpuRequest, GpuShare
from runners.scheduling.allocation import (
    Allocation,
    Busy,
    Denied,
    allocate,
    awaited,
    claimable_gpus,
    free_gpus,
    obstacle,
)
from runners.scheduling.visibility import visibility
from runners.state.leases import Lease

GIB = 1 << 30
FOREIGN = GpuProcess(4711, "anna", "python train.py", GIB)
OURS = GpuProcess(4711, "me", "python", run="20261120-101500-demo-7f3a")
HALF = {"memory_total": 80 * GIB, "memory_used": 40 * GIB, "processes": (OURS,)}


def test_gpus_that_cannot_be_read_yet_are_waited_for_not_replaced_by_the_cpu() -> None:
    unread = GpuReading(
        0.0, "here", UNREAD, problem="No GPU reading yet: the driver does not answer"
    )
    answer = allocate(GpuRequest(1), unread, {})
    assert isinstance(answer, Busy)
    assert "the driver does not answer" in refused(answer)
    assert given(allocate(GpuRequest(0), unread, {})) == []


def test_what_is_recorded_of_a_gpu_is_enough_to_show_it_to_a_program() -> None:
    """A granted run is spelled out later, perhaps while nothing can be read."""
    gpus = gpu(3, vendor="amd"), gpu(5, vendor="amd")
    recorded = Allocation(gpus).assigned(None)
    again = [
        GpuSnapshot(one.index, one.uuid, one.name, one.vendor, mig_parent=one.mig_parent)
        for one in recorded
    ]
    assert visibility(again, None) == visibility(gpus, None) == {"HIP_VISIBLE_DEVICES": "3,5"}
    (slice_,) = Allocation((gpu(0, mig_parent="GPU-9"),)).assigned(None)
    assert slice_.mig_parent == "GPU-9"


def gpu(index: int, **changes: Any) -> GpuSnapshot:
    fields: dict[str, Any] = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "H100",
        "vendor": "nvidia",
    }
    return GpuSnapshot(**(fields | changes))


def reading(*gpus: GpuSnapshot, problem: str | None = None) -> GpuReading:
    return GpuReading(0.0, "here", "nvml", gpus, problem=problem)


def lease(index: int, run: str = "20261120-101500-demo-7f3a") -> dict[str, list[Lease]]:
    return {f"GPU-{index}": [Lease(f"GPU-{index}", run, 0, "demo")]}


def given(answer: Allocation | Denied) -> list[int]:
    """The indices given; fails when the wish was refused."""
    assert isinstance(answer, Allocation), answer
    return [gpu.index for gpu in answer.gpus]


def refused(answer: Allocation | Busy | Denied) -> str:
    """Why a wish was refused; fails when it was met."""
    assert isinstance(answer, (Busy, Denied)), answer
    assert answer.hint
    return answer.reason


FOUR = reading(*(gpu(i) for i in range(4)))


@pytest.mark.parametrize(
    ("wish", "indices"),
    [
        (GpuRequest(count=0), []),
        (GpuRequest(count=2), [0, 1]),
        (GpuRequest(count=1, last=True), [3]),
        (GpuRequest(count=2, last=True), [2, 3]),
        (GpuRequest(count=4), [0, 1, 2, 3]),
        (GpuRequest(count="all"), [0, 1, 2, 3]),
        (GpuRequest(ids=("3", "1")), [3, 1]),
        (GpuRequest(ids=("GPU-2", "0")), [2, 0]),
    ],
)
def test_a_wish_is_met_in_the_order_asked_for(wish: GpuRequest, indices: list[int]) -> None:
    assert given(allocate(wish, FOUR, {})) == indices


def test_a_count_goes_round_what_is_busy() -> None:
    host = reading(
        gpu(0), gpu(1, processes=(FOREIGN,)), gpu(2, error="lost: fell off the bus"), gpu(3), gpu(4)
    )
    assert given(allocate(GpuRequest(count=2), host, lease(0))) == [3, 4]


def test_a_lease_names_its_run() -> None:
    reason = refused(allocate(GpuRequest(ids=("1",)), FOUR, lease(1)))
    assert "GPU 1" in reason and "held by 20261120-101500-demo-7f3a" in reason


def test_a_foreign_process_names_pid_and_user() -> None:
    host = reading(gpu(0, processes=(FOREIGN,)))
    assert "GPU 0 used by pid 4711 of user anna, not ours" in refused(
        allocate(GpuRequest(count=1), host, {})
    )


def test_a_process_of_another_namespace_is_foreign_too() -> None:
    host = reading(gpu(0, processes=(GpuProcess(99, outside=True),)))
    assert "pid 99 of someone outside this container" in refused(
        allocate(GpuRequest(count=1), host, {})
    )


def test_the_process_of_an_own_run_is_told_by_its_lease_not_as_foreign() -> None:
    host = reading(gpu(0, processes=(OURS,)), gpu(1))
    assert given(allocate(GpuRequest(count=1), host, lease(0))) == [1]
    assert given(allocate(GpuRequest(count=1), host, {})) == [0], (
        "without its lease it only is on its way out"
    )


@pytest.mark.parametrize(
    ("wish", "found", "words"),
    [
        (GpuRequest(1), HALF, None),
        (GpuRequest(1, memory=40 * GIB), HALF, None),
        (GpuRequest(1, memory=41 * GIB), HALF, "has 40.0 GiB free, not 41.0 GiB"),
        (GpuRequest(1, share=GpuShare(41 * GIB)), HALF, "has 40.0 GiB free, not 41.0 GiB"),
        (GpuRequest(1, memory=GIB, share=GpuShare(41 * GIB)), HALF, "not 41.0 GiB"),
        (GpuRequest(1, memory=GIB), HALF | {"memory_used": None}, "(1.0 GiB needed)"),
        (GpuRequest(1, memory=GIB), HALF | {"memory_total": None}, "(1.0 GiB needed)"),
        (GpuRequest(1), {"memory_used": 2 * GIB}, None),
        (GpuRequest(1), {"memory_used": 2 * GIB + 1}, "a process that is not visible here"),
        (GpuRequest(1, foreign=True), {"memory_used": 3 * GIB}, None),
        (GpuRequest(1, foreign=True), {"processes": (FOREIGN,)}, None),
        (GpuRequest(1), {"processes": (FOREIGN,), "vendor": "simulated"}, None),
        (GpuRequest(1), {"unread": "not read for 9 s"}, "not read for 9 s"),
        (GpuRequest(1, model="h1"), {}, None),
        (GpuRequest(1, model="A10"), {}, "no GPU here is a A10"),
    ],
)
def test_what_stands_in_the_way(wish: GpuRequest, found: dict[str, Any], words: str | None) -> None:
    answer = allocate(wish, reading(gpu(0, **found)), {})
    if words is None:
        assert given(answer) == [0]
    else:
        assert words in refused(answer)


@pytest.mark.parametrize(
    ("wish", "claimed", "waits_for"),
    [
        (GpuRequest(0), [], []),
        (GpuRequest(2), [0, 1, 2, 3], [0, 1]),
        (GpuRequest(2, last=True), [0, 1, 2, 3], [2, 3]),
        (GpuRequest(7, last=True), [0, 1, 2, 3], [0, 1, 2, 3]),
        (GpuRequest("all"), [0, 1, 2, 3], [0, 1, 2, 3]),
        (GpuRequest(1, model="A1"), [3], [3]),
        (GpuRequest(ids=("2", "GPU-1", "9")), [1, 2], [1, 2]),
    ],
)
def test_what_a_run_that_waits_may_yet_get(
    wish: GpuRequest, claimed: list[int], waits_for: list[int]
) -> None:
    mixed = reading(*(gpu(i, name="A10" if i == 3 else "H100") for i in range(4)))
    assert claimable_gpus(wish, mixed) == {f"GPU-{i}" for i in claimed}
    assert [gpu.index for gpu in awaited(wish, mixed).awaited] == waits_for
    assert claimable_gpus(wish, None) == set() and awaited(wish, None).awaited == ()


def test_what_a_launch_of_one_gpu_could_be_given_now() -> None:
    gpus = (*MIG.gpus, gpu(2), gpu(3, error="driver mismatch"))
    assert [gpu.uuid for gpu in free_gpus(gpus, lease(2))] == ["MIG-a", "MIG-b", "GPU-1"]
    assert obstacle(gpus[0], gpus) and not obstacle(gpus[1], gpus)


def test_a_broken_gpu_is_refused_with_its_error() -> None:
    host = reading(gpu(0, error="driver mismatch"), gpu(1))
    assert "GPU 0 driver mismatch" in refused(allocate(GpuRequest(ids=("0",)), host, {}))


def test_a_gpu_that_allows_nobody_to_compute_is_refused() -> None:
    modes = [gpu(0, detail=GpuDetail(compute_mode="prohibited")), gpu(1, detail=GpuDetail())]
    assert given(allocate(GpuRequest(1), reading(*modes), {})) == [1]
    assert "compute-mode" in refused(allocate(GpuRequest(ids=("0",)), reading(*modes), {}))


def test_gpus_with_the_same_obstacle_are_named_together() -> None:
    leases = lease(0, "run-a") | lease(1, "run-a") | lease(3, "run-b")
    reason = refused(allocate(GpuRequest(count=2), FOUR, leases))
    assert "2 GPUs asked for, 1 of 4 free" in reason
    assert "GPU 0-1 held by run-a" in reason and "GPU 3 held by run-b" in reason


def test_all_means_all() -> None:
    assert "GPU 2 held by" in refused(allocate(GpuRequest(count="all"), FOUR, lease(2)))


def test_more_than_the_machine_has_is_said_so() -> None:
    assert "8 GPUs asked for, but this machine has 4" in refused(
        allocate(GpuRequest(count=8), FOUR, {})
    )


def test_an_unknown_gpu_is_refused_with_those_there_are() -> None:
    answer = allocate(GpuRequest(ids=("0", "7", "GPU-x")), FOUR, {})
    assert "no GPU 7, GPU-x on this machine" in refused(answer)
    assert isinstance(answer, Denied) and "0-3" in answer.hint


def test_one_gpu_under_two_names_is_not_two_gpus() -> None:
    assert "GPU 1 is named twice" in refused(allocate(GpuRequest(ids=("1", "GPU-1")), FOUR, {}))


MIG = reading(
    gpu(0),
    gpu(0, uuid="MIG-a", mig_parent="GPU-0"),
    gpu(1, uuid="MIG-b", mig_parent="GPU-0"),
    gpu(1),
)


def test_a_gpu_cut_into_instances_is_never_given_whole() -> None:
    answer = allocate(GpuRequest(count="all"), MIG, {})
    assert isinstance(answer, Allocation)
    assert {gpu.uuid for gpu in answer.gpus} == {"MIG-a", "MIG-b", "GPU-1"}
    assert "cut into MIG instances" in refused(allocate(GpuRequest(ids=("0",)), MIG, {}))


def test_instances_are_named_by_uuid_and_an_index_means_the_whole_gpu() -> None:
    by_uuid = allocate(GpuRequest(ids=("MIG-b",)), MIG, {})
    by_index = allocate(GpuRequest(ids=("1",)), MIG, {})
    assert isinstance(by_uuid, Allocation) and [gpu.uuid for gpu in by_uuid.gpus] == ["MIG-b"]
    assert isinstance(by_index, Allocation) and [gpu.uuid for gpu in by_index.gpus] == ["GPU-1"]


@pytest.mark.parametrize("host", [None, reading(), reading(problem="the driver does not answer")])
def test_without_gpus_a_run_uses_the_cpu_and_says_why(host: GpuReading | None) -> None:
    answer = allocate(GpuRequest(count=2), host, {})
    assert given(answer) == []
    assert isinstance(answer, Allocation)
    why = (host.problem if host else None) or "this machine has no GPU"
    assert answer.notes == (f"runs on the CPU: {why}",)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (GpuRequest(count=1, required=True), "1 GPU asked for, but this machine has no GPU"),
        (GpuRequest(count=2, explicit=True), "2 GPUs asked for"),
        (GpuRequest(count="all", explicit=True), "all GPUs asked for"),
        (GpuRequest(ids=("0", "1"), explicit=True), "GPU 0,1 asked for"),
    ],
)
def test_without_gpus_a_wish_that_was_meant_is_refused(wish: GpuRequest, words: str) -> None:
    assert words in refused(allocate(wish, reading(), {}))


def test_a_wish_for_none_is_met_even_if_it_was_explicit() -> None:
    assert given(allocate(GpuRequest(count=0, explicit=True), None, {})) == []


def test_who_holds_a_gpu_is_said_and_since_when_where_that_is_known() -> None:
    since = time.mktime((2026, 11, 20, 10, 15, 0, 0, 0, -1))
    known, unknown = Lease("GPU-0", "run-a", 0, "demo", since), Lease("GPU-0", "run-b", 0, "demo")
    held = obstacle(gpu(0), [gpu(0)], [known])
    assert held is not None and held.endswith(time_of_day(since))
    assert obstacle(gpu(0), [gpu(0)], [unknown]) == "held by run-b"
