"""How a live run is doing and where it hangs, as names and values."""

from pathlib import Path

import msgspec
import pytest

from runners.diagnosis.stacks import RankStack, StackDump
from runners.model.errors import NotFound
from runners.model.health import Condition, Health, RankSign
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_run
from tui.views.health.health_text import health_pairs, health_remark, rank_text
from tui.views.health.stack_text import read_stacks, stack_pairs, stacks_json

STALL = Health(Condition.STALL, "silent for 12m05s", 1000.0, 1725.0)


def test_only_what_is_remarkable_stands_in_a_row() -> None:
    assert health_remark(None) == "" and health_pairs(None) == []
    well = Health(Condition.PROGRESSING, "epoch 3", 1000.0, 1060.0)
    assert health_remark(well) == "" and health_pairs(well) == [("doing", "epoch 3")]
    assert health_remark(STALL) == f"⚠ {STALL.sentence}"


def test_details_have_evidence_ranks_and_stacks() -> None:
    ranks = tuple(RankSign(f"rank {n}", 4711 + n, "runs", n) for n in range(20))
    whole = msgspec.structs.replace(
        STALL, evidence=("GPUs idle",), also=("disk full",), ranks=ranks, stacks="/run/stacks/1"
    )
    pairs = health_pairs(whole)
    assert pairs[1:3] == [("evidence", "GPUs idle"), ("also", "disk full")]
    assert [name for name, _ in pairs[3:-1]] == [rank.label for rank in ranks[:16]]
    assert pairs[-1] == ("stacks", "/run/stacks/1")
    alone = health_pairs(msgspec.structs.replace(STALL, ranks=ranks[:1]))
    assert alone == [("doing", f"⚠ {STALL.sentence}")], "one rank is the run"


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, "pid 4711, sleeps"),
        ({"cpu_percent": 97.6}, "pid 4711, sleeps, 98 % CPU"),
        ({"line_age_s": 4.0}, "pid 4711, sleeps, last line 4s ago"),
    ],
)
def test_of_a_rank_is_said_what_is_known(known: dict[str, float], text: str) -> None:
    assert rank_text(RankSign("rank 0", 4711, "sleeps", 0, **known)) == text


def test_saved_stacks_of_an_ended_run_are_shown_whole() -> None:
    state = StateDirectory().create()
    run = make_run(State.FAILED, directory=str(state.run("20261120-101500-demo-7f3a").path))
    with pytest.raises(NotFound):
        read_stacks(state, run)
    assert stack_pairs(Path(run.directory), 1060.0) == []
    folder = Path(run.directory) / "stacks" / "20261120-101600"
    folder.mkdir(parents=True)
    ranks = tuple(
        RankStack(f"rank {n}", n, 4711 + n, "sleeps", place=f"train.py:{n} in main")
        for n in range(9)
    )
    dump = StackDump(1000.0, "before SIGKILL", str(folder), ranks)
    (folder / "stacks.json").write_bytes(msgspec.json.encode(dump))
    (folder / "all.txt").write_bytes(b"rank 0\n  train.py \xff\n")
    found = read_stacks(state, run)
    assert (found.time, found.text) == (1000.0, "rank 0\n  train.py \ufffd\n")
    pairs = stack_pairs(Path(run.directory), 1060.0)
    assert "1m" in pairs[0][1] and len(pairs) == 9, "eight ranks are enough"
    assert stacks_json(dump)["time"].startswith("1970-01-01T")
    judged = msgspec.structs.replace(dump, verdict="rank 2 is awaited")
    (folder / "stacks.json").write_bytes(msgspec.json.encode(judged))
    assert stack_pairs(Path(run.directory), 1060.0)[1:] == [("stacks show", "rank 2 is awaited")]
