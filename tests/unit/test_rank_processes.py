"""Which process of a run is which rank, by what launchers put into the environment."""

from runners.diagnosis.stacks import RankStack, absent_ranks
from runners.state.rank_processes import ProcessState, foremost_ranks, rank_of


def test_a_launcher_inside_a_slurm_job_is_none_of_its_ranks() -> None:
    launcher = {"SLURM_PROCID": "0"}
    told = {
        10: rank_of(launcher),
        11: rank_of({**launcher, "RANK": "0"}),
        12: rank_of({**launcher, "RANK": "1"}),
        13: rank_of({"PATH": "/bin"}),
    }
    assert foremost_ranks(told) == {10: None, 11: 0, 12: 1, 13: None}
    assert foremost_ranks({10: rank_of(launcher), 13: None}) == {10: 0, 13: None}
    assert rank_of({"OMPI_COMM_WORLD_RANK": "3", "RANK": "x"}) == (1, 3)


def test_what_a_process_waits_for_is_told_in_words() -> None:
    def words(letter: str, channel: str) -> str:
        return ProcessState(letter, channel, 1, 0.0).text

    assert words("R", "") == "runs"
    assert words("S", "futex_do_wait") == "waits for a lock or another thread (futex_do_wait)"
    assert words("D", "rpc_wait_bit_killable").startswith("waits for a file server, which nothing")
    assert words("T", "") == "is stopped by a signal or a debugger"
    assert words("S", "something_new") == "waits (something_new)"


def stack(rank: int, collective: str, place: str = "train.py:1 in main") -> RankStack:
    return RankStack(f"rank {rank}", rank, 100 + rank, "sleeps", "", "py-spy", place, collective)


def test_who_is_awaited_is_who_is_not_there() -> None:
    waiting = [stack(rank, "all_reduce") for rank in (0, 1, 3)]
    absent, words = absent_ranks([*waiting, stack(2, "", "data.py:9 in load")])
    assert absent == (2,)
    assert words == "rank 2 has not come to all_reduce, in which 3 others wait: data.py:9 in load"
    strays = [*waiting, stack(2, "barrier", "eval.py:7 in evaluate")]
    assert absent_ranks(strays)[0] == (2,), "it is on another branch"
    absent, words = absent_ranks(waiting)
    assert absent == () and words.startswith("all 3 ranks wait in all_reduce, train.py:1 in main")
    working = [stack(rank, "") for rank in range(4)]
    assert absent_ranks(working) == ((), "")
    assert absent_ranks([*working[:3], stack(3, "all_reduce")]) == ((), ""), "one came early"


def test_without_stacks_one_that_sleeps_elsewhere_is_told_as_such() -> None:
    blind = [RankStack(f"rank {n}", n, n, "waits for a socket") for n in range(3)]
    absent, words = absent_ranks([*blind, RankStack("rank 3", 3, 3, "sleeps")])
    assert absent == (3,) and "no stacks are known" in words
