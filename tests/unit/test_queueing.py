"""The order of the queue: who starts, who waits and why; nobody is delayed by a later run."""

import pytest

from runners.model.gpus import UNREAD, GpuReading, GpuSnapshot
from runners.model.spec import After, GpuRequest, GpuShare
from runners.model.states import State
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import (
    Candidate,
    Granted,
    QueueDecision,
    Waiting,
    decide,
    in_order,
)
from runners.state.leases import Lease

GIB = 1 << 30


def reading(count: int = 4) -> GpuReading:
    gpus = tuple(
        GpuSnapshot(
            i, f"GPU-{i}", "NVIDIA H100 80GB", "nvidia", memory_total=80 * GIB, memory_used=GIB
        )
        for i in range(count)
    )
    return GpuReading(0.0, "here", "nvml", gpus)


def want(run: str, count: int = 1, created: float = 0.0, **fields: object) -> Candidate:
    request = fields.pop("request", None) or GpuRequest(count=count)
    return Candidate(run, request, created=created, **fields)  # type: ignore[arg-type]


def held(*indices: int, share: int | None = None) -> dict[str, list[Lease]]:
    return {
        f"GPU-{i}": [Lease(f"GPU-{i}", "holder", 0, "other", share_memory=share)] for i in indices
    }


def gpus(verdict: QueueDecision) -> list[int] | None:
    return [gpu.index for gpu in verdict.allocation.gpus] if isinstance(verdict, Granted) else None


def test_priority_then_first_come() -> None:
    ordered = in_order(
        [want("late", created=2), want("early", created=1), want("urgent", created=3, priority=1)]
    )
    assert [candidate.run for candidate in ordered] == ["urgent", "early", "late"]


def test_a_small_run_never_takes_what_an_earlier_big_one_waits_for() -> None:
    verdicts = decide([want("big", 4, 1.0), want("small", 1, 2.0)], reading(), held(0), {})
    assert gpus(verdicts["big"]) is None and "3 of 4 free" in verdicts["big"].reason
    assert gpus(verdicts["small"]) is None
    assert "reserved for a run ahead of it in the queue" in verdicts["small"].reason
    assert (verdicts["big"].place, verdicts["small"].place) == (1, 2)


def test_a_run_goes_ahead_on_gpus_that_the_waiting_one_could_not_use() -> None:
    first = want("on-3", created=1.0, request=GpuRequest(ids=("3",)))
    verdicts = decide([first, want("any", 2, 2.0)], reading(), held(3), {})
    assert "held by holder" in verdicts["on-3"].reason
    assert gpus(verdicts["any"]) == [0, 1]


def test_candidates_of_one_pass_never_share_a_gpu() -> None:
    verdicts = decide([want(f"r{i}", 1, float(i)) for i in range(6)], reading(), {}, {})
    given = [gpus(verdicts[f"r{i}"]) for i in range(6)]
    assert given == [[0], [1], [2], [3], None, None]


def test_a_run_behind_one_that_never_can_is_not_held_up() -> None:
    verdicts = decide([want("nine", 9, 1.0), want("one", 1, 2.0)], reading(), {}, {})
    assert isinstance(verdicts["nine"], Denied) and "this machine has 4" in verdicts["nine"].reason
    assert gpus(verdicts["one"]) == [0]


def test_groups_start_together_or_not_at_all() -> None:
    pair = [want("a", 3, 1.0, group="g"), want("b", 1, 1.0, group="g")]
    together = decide(pair, reading(), {}, {})
    assert (gpus(together["a"]), gpus(together["b"])) == ([0, 1, 2], [3])
    neither = decide(pair, reading(), held(3), {})
    assert gpus(neither["a"]) is None and gpus(neither["b"]) is None
    assert "starts together with b" in neither["a"].reason


def test_a_group_does_not_hide_who_stands_behind_it() -> None:
    pair = [want("a", 1, 1.0, group="g"), want("b", 1, 1.0, group="g")]
    verdicts = decide([*pair, want("c", 1, 2.0)], reading(), {}, {})
    assert {run: gpus(verdict) for run, verdict in verdicts.items()} == {
        "a": [0],
        "b": [1],
        "c": [2],
    }


def test_a_group_waits_for_gpus_where_none_is_read() -> None:
    pair = [want("a", 3, 1.0, group="g"), want("b", 1, 1.0, group="g")]
    unread = GpuReading(0.0, "here", UNREAD)
    verdicts = decide(pair, unread, {}, {})
    assert all(isinstance(verdict, Waiting) for verdict in verdicts.values())


def test_a_group_that_is_too_big_for_the_machine_never_starts() -> None:
    pair = [want("a", 3, 1.0, group="g"), want("b", 2, 1.0, group="g")]
    verdicts = decide(pair, reading(), held(0), {})
    assert isinstance(verdicts["a"], Denied) and isinstance(verdicts["b"], Denied)
    # Whether it would fit is not known where nothing is read.
    unread = decide(pair, None, {}, {})
    assert not isinstance(unread["a"], Denied)


@pytest.mark.parametrize(
    ("on", "ending", "starts", "never"),
    [
        ("success", None, False, False),
        ("success", State.DONE, True, False),
        ("success", State.FAILED, False, True),
        ("success", State.STOPPED, False, True),
        ("failure", State.FAILED, True, False),
        ("failure", State.DONE, False, True),
        ("any", State.LOST, True, False),
    ],
)
def test_chains(on: str, ending: State | None, starts: bool, never: bool) -> None:
    verdict = decide([want("next", after=After("first", on))], reading(), {}, {"first": ending})[
        "next"
    ]
    assert (isinstance(verdict, Granted), isinstance(verdict, Denied)) == (starts, never)
    assert starts or "first" in verdict.reason


def test_a_run_that_waits_for_another_run_keeps_no_gpus_from_the_others() -> None:
    chained = want("chained", 4, 1.0, after=After("first"))
    assert gpus(decide([chained, want("now", 4, 2.0)], reading(), {}, {"first": None})["now"]) == [
        0,
        1,
        2,
        3,
    ]


def test_drained_means_nothing_starts_and_says_since_when() -> None:
    verdict = decide([want("r")], reading(), {}, {}, drained="02:10")["r"]
    assert isinstance(verdict, Waiting) and "since 02:10" in verdict.reason


def test_sharing_runs_stand_side_by_side_within_the_memory() -> None:
    share = GpuRequest(ids=("0",), share=GpuShare(30 * GIB))
    three = [want(f"s{i}", created=float(i), request=share) for i in range(3)]
    verdicts = decide(three, reading(), {}, {})
    assert [gpus(verdicts[f"s{i}"]) for i in range(3)] == [[0], [0], None]
    assert "leaves 20.0 GiB" in verdicts["s2"].reason
    halves = [
        want(run, request=GpuRequest(ids=("0",), share=GpuShare(40 * GIB))) for run in ("l", "r")
    ]
    assert [gpus(verdict) for verdict in decide(halves, reading(), {}, {}).values()] == [[0], [0]]


def test_an_exclusive_run_and_a_sharing_one_never_meet() -> None:
    share = GpuRequest(ids=("0",), share=GpuShare(GIB))
    assert gpus(decide([want("s", request=share)], reading(), held(0), {})["s"]) is None
    exclusive = want("e", request=GpuRequest(ids=("0",)))
    assert gpus(decide([exclusive], reading(), held(0, share=GIB), {})["e"]) is None


def test_who_could_share_does_not_go_before_who_waits_for_the_whole() -> None:
    whole = want("whole", 1, 1.0)
    later = want("later", created=2.0, request=GpuRequest(count=1, share=GpuShare(GIB)))
    shared = {"GPU-0": [Lease("GPU-0", "holder", 0, "other", share_memory=GIB)]}
    verdicts = decide([whole, later], reading(1), shared, {})
    assert gpus(verdicts["later"]) is None and isinstance(verdicts["later"], Waiting)
    assert gpus(decide([later], reading(1), shared, {})["later"]) == [0]


@pytest.mark.parametrize(
    "request_", [GpuRequest(1, memory=200 * GIB), GpuRequest(1, share=GpuShare(200 * GIB))]
)
def test_more_memory_than_a_gpu_has_is_never_waited_for(request_: GpuRequest) -> None:
    verdicts = decide([want("big", request=request_), want("one", 1, 2.0)], reading(), {}, {})
    assert isinstance(verdicts["big"], Denied) and gpus(verdicts["one"]) == [0]


def test_a_run_for_large_gpus_keeps_no_small_one_from_the_others() -> None:
    small = GpuSnapshot(0, "GPU-0", "A10", "nvidia", memory_total=24 * GIB, memory_used=GIB)
    mixed = GpuReading(0.0, "here", "nvml", (small, *reading(2).gpus[1:]))
    large = want("large", created=1.0, request=GpuRequest(1, memory=40 * GIB))
    assert gpus(decide([large, want("any", 1, 2.0)], mixed, held(1), {})["any"]) == [0]


def test_a_group_that_waits_for_another_run_keeps_no_gpus_from_the_others() -> None:
    pair = [want("a", 1, 1.0, group="g", after=After("first")), want("b", 2, 1.0, group="g")]
    verdicts = decide([*pair, want("now", 4, 2.0)], reading(), {}, {"first": None})
    assert gpus(verdicts["now"]) == [0, 1, 2, 3]
