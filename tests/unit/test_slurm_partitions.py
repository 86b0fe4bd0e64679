"""What sinfo prints of each node, as the GPUs of its partitions."""

from itertools import product

import pytest

from runners.slurm.partitions import PartitionGpus, read_partitions

_DAY = 86_400.0


def _line(*fields: str) -> str:
    return "".join(f"{field}|" for field in fields) + "\n"


def _node(state: str, has: str, used: str, partition: str = "gpu*") -> str:
    return _line(partition, "up", state, has, used, "1-00:00:00")


def test_gpus_are_added_up_by_partition_and_model() -> None:
    """Free, used and out of service are all that there are."""
    output = (
        _node("mix", "gpu:a100:8(S:0-1)", "gpu:a100:3(IDX:0,2-3)")
        + _node("idle~", "gpu:a100:8,shard:32", "gpu:a100:0(IDX:N/A),shard:0")
        + _node("drng", "gpu:a100:8", "gpu:a100:2(IDX:0-1)")
        + _node("alloc", "gpu:h100:4,gpu:a100:2", "gpu:h100:4(IDX:0-3),gpu:a100:1(IDX:4)")
        + _node("idle*", "gpu:h100:4", "gpu:h100:0(IDX:N/A)")
        + _line("closed", "down", "idle", "gpu:2", "gpu:0", "infinite")
        + _node("idle", "(null)", "(null)", "cpu")
    )
    assert read_partitions(output)[0] == (
        PartitionGpus("gpu", "a100", 26, 14, 6, 6, True, _DAY),
        PartitionGpus("gpu", "h100", 8, 0, 4, 4, True, _DAY),
        PartitionGpus("closed", "", 2, 0, 0, 2),
    )


def test_parts_of_a_gpu_are_a_model_of_their_own() -> None:
    """MIG instances, as Slurm's AutoDetect names them."""
    ((found,), _) = read_partitions(_node("mix", "gpu:a100_1g.5gb:7", "gpu:a100_1g.5gb:2(IDX:0-1)"))
    assert (found.model, found.total, found.free) == ("a100_1g.5gb", 7, 5)


@pytest.mark.parametrize(
    "output",
    ["", "sinfo: warning\n", "a|b|c\n", _node("idle", "gpu:many", ""), _line("", *"abcde")],
)
def test_what_is_no_such_answer_is_nothing(output: str) -> None:
    assert read_partitions(output)[0] == ()


def test_a_node_s_gpus_are_never_more_than_it_has() -> None:
    """Whatever it says is used; in every state each GPU is counted once."""
    for state, used in product(("idle", "mix", "down*", "maint", "alloc#"), ("0", "3", "99", "x")):
        for row in read_partitions(_node(state, "gpu:a100:4", f"gpu:a100:{used}"))[0]:
            assert row.free + row.used + row.down == row.total == 4
