"""Why a run ended: the first cause under a cascade, and never an alarm without one."""

import json
import random
from pathlib import Path

import pytest

from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import (
    HEAD_BYTES,
    TAIL_BYTES,
    Evidence,
    LogPart,
    RankError,
    gather_evidence,
    read_log,
)
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis, NotKnown, cause_text, to_json
from runners.model.endings import Ending, EndingCause
from runners.model.gpus import Xid
from runners.model.states import State
from tests.support import REPOSITORY, make_run

SAMPLES = REPOSITORY / "tests" / "samples" / "diagnosis"
SIGNATURES = load_signatures(Path("/nowhere"))
FAILURES = [json.loads(line) for line in (SAMPLES / "failures.jsonl").read_text().splitlines()]


def blocks(name: str) -> list[list[str]]:
    """Names and texts of a file of samples, each under its own `=== name`."""
    text = (SAMPLES / name).read_text().removeprefix("=== ")
    return [block.split("\n", 1) for block in text.split("\n=== ")]


HEALTHY, FALSE_FRIENDS = blocks("healthy.txt"), blocks("false_friends.txt")
CASCADE = [
    (
        "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: "
        "ProcessGroupNCCL.cpp:2094, remote process exited or there was a network error, NCCL "
        "version 2.21.5"
    ),
    (
        "[rank{0}]:[E321 02:07:09.9 ProcessGroupNCCL.cpp:621] [Rank {0}] Some NCCL operations "
        "have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent "
        "GPU operations might run on corrupted/incomplete data."
    ),
    (
        "[rank{0}]:[E321 02:07:10.1 ProcessGroupNCCL.cpp:627] [Rank {0}] To avoid data "
        "inconsistency, we are taking the entire process down."
    ),
    (
        "W1120 10:00:00 140 torch/distributed/elastic/multiprocessing/api.py:897] Sending "
        "process 12{0} closing signal SIGTERM"
    ),
    "[rank{0}]: Traceback (most recent call last):",
    '[rank{0}]:   File "train.py", line 12{0}, in train_step',
    (
        "[rank{0}]: torch.distributed.elastic.multiprocessing.api.SignalException: Process "
        "312{0} got signal: 15"
    ),
    (
        "CUDA kernel errors might be asynchronously reported at some other API call, so the "
        "stacktrace below might be incorrect."
    ),
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "[rank{0}]: KeyboardInterrupt",
    "[rank{0}]: Exception ignored in: <function DataLoader.__del__ at 0x7f>",
]


def log(text: str, rank: int | None = None) -> tuple[LogPart, ...]:
    return (LogPart("output.log", text.encode(), 0, rank),)


def verdict(text: str = "", exit_code: int | None = 1, **more: object) -> Diagnosis | NotKnown:
    return diagnose(Evidence(exit_code=exit_code, logs=log(text), **more), SIGNATURES)  # type: ignore[arg-type]


def buried(text: str, before: int, tagged: bool) -> str:
    """`text` among 200 lines of what eight ranks say when one of them has died."""
    dice = random.Random(text + str(before))
    lines = [dice.choice(CASCADE).format(dice.randrange(8)) for _ in range(200)]
    own = [f"[rank5]: {line}" if tagged else line for line in text.split("\n")]
    steps = [f"[rank0]: step {i} loss {1 / i:.3f}" for i in range(1, 50)]
    return "\n".join([*steps, *lines[:before], *own, *lines[before:], ""])


@pytest.mark.parametrize("before", [0, 90, 200])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure["id"])
def test_the_cause_is_found_under_the_cascade_of_eight_ranks(
    failure: dict[str, str], before: int
) -> None:
    code = int(failure["exit"])
    text = buried(failure["text"], before, tagged=code == 1)
    assert verdict(text, code).kind == failure["expect"]


@pytest.mark.parametrize("one", SIGNATURES, ids=lambda one: one.id)
def test_every_sample_of_a_signature_is_diagnosed_as_its_class(one: object) -> None:
    for sample in one.samples:  # type: ignore[attr-defined]
        found = verdict(f"epoch 1\nepoch 2\nepoch 3 loss 0.1\n{sample}\n")
        assert isinstance(found, Diagnosis), sample
        assert found.kind == one.kind, sample  # type: ignore[attr-defined]


def test_only_what_passes_is_worth_another_try() -> None:
    stay = {"gpu_out_of_memory", "checkpoint_other_device", "invalid_device_ordinal"}
    stay |= {"file_missing", "module_missing", "wrong_arguments"}
    pass_by = {"network_between_ranks", "collective_timeout", "node_failure", "preempted"}
    lasting = {one.kind for one in SIGNATURES if one.lasting}
    assert stay <= lasting and not pass_by & lasting


@pytest.mark.parametrize("name, text", HEALTHY, ids=[name for name, _ in HEALTHY])
def test_a_healthy_log_raises_no_alarm_even_when_the_run_ended_badly(name: str, text: str) -> None:
    assert isinstance(verdict(text, 0), NotKnown)
    found = verdict(text, 1)
    assert isinstance(found, NotKnown), found


@pytest.mark.parametrize("name, text", FALSE_FRIENDS, ids=[name for name, _ in FALSE_FRIENDS])
def test_a_false_friend_is_no_cause_of_a_run_that_failed_otherwise(name: str, text: str) -> None:
    found = verdict(f"step 1 loss 1\nstep 2 loss 0.9\nstep 3 loss 0.8\n{text}\n", 1)
    assert isinstance(found, NotKnown), found


def test_there_are_forty_healthy_logs() -> None:
    assert len(HEALTHY) >= 40


def test_what_was_done_on_purpose_comes_before_any_text() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    guard = Ending(cause=EndingCause.GUARD, detail="budget of $5 reached")
    stopped = verdict(text, 143, state=State.STOPPED, ending=guard)
    assert stopped.kind == "stopped_by_guard" and "budget" in to_json(stopped)["cause"]
    limit = verdict(text, 143, state=State.STOPPED, ending=Ending(cause=EndingCause.LIMIT))
    assert limit.kind == "stopped_at_limit"


def test_a_bare_kill_is_not_known_until_something_confirms_it() -> None:
    bare = verdict("step 1 loss 0.2\n", 137)
    assert isinstance(bare, NotKnown) and bare.kind == "killed_unknown"
    counted = verdict("step 1 loss 0.2\n", 137, oom_kills=1)
    assert counted.kind == "host_out_of_memory"
    hidden = verdict("step 1 loss 0.2\ncode 137\n", 3, oom_kills=1)
    assert hidden.kind == "host_out_of_memory", "a shell's own exit code says nothing of it"
    own = verdict("Traceback (most recent call last):\nKeyError: 'lr'\n", 1, oom_kills=1)
    assert own.kind != "host_out_of_memory", "its own error is the reason"
    line = "oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=4711,uid=0"
    ours = verdict("", -9, kernel=(line,), pids=frozenset({4711}))
    others = verdict("", -9, kernel=(line,), pids=frozenset({47}))
    assert ours.kind == "host_out_of_memory" and isinstance(others, NotKnown)


def test_an_error_nobody_knows_is_shown_and_not_explained() -> None:
    text = buried("[rank5]: ValueError: a thing nobody knows", 90, tagged=False)
    found = verdict(text)
    assert isinstance(found, NotKnown) and found.rank == 5
    assert "ValueError: a thing nobody knows" in found.message


def test_a_kill_is_not_explained_by_what_other_ranks_say_of_it() -> None:
    found = verdict(buried("Killed", 90, tagged=False), 137)
    assert isinstance(found, NotKnown) and found.kind == "killed_unknown"


def test_a_rank_s_signal_told_by_torchrun_counts_as_its_end() -> None:
    report = (
        "Root Cause (first observed failure):\n[0]:\n  rank      : 3 (local_rank: 3)\n  "
        "exitcode  : -11 (pid: 77)\n"
    )
    found = verdict(report)
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("crashed", 3)


@pytest.mark.parametrize(
    "error, kind",
    [
        ("OSError: [Errno 28] No space left on device: '/out/ckpt.pt'", "disk_full"),
        ("ValueError: odd", "unknown"),
    ],
)
def test_torchrun_s_report_tells_whose_error_it_was(error: str, kind: str) -> None:
    report = (
        f"{error}\nFailures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 1)  "
        "(SIGTERM)\n"
        "  traceback : Traceback (most recent call last):\n  RuntimeError: [gloo/pair.cc:553] "
        "Connection closed by peer [::1]:4\n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  "
        ": 1 (pid: 2) \n"
        '  traceback : Traceback (most recent call last):\n    File "w.py", line 10, in main\n  '
        f"{error}\n  \n====\n"
    )
    found = verdict(report)
    assert (found.kind, found.rank) == (kind, 1)


def test_the_rank_that_failed_first_is_believed() -> None:
    lines = [
        "[rank1]: ModuleNotFoundError: No module named 'a'",
        "[rank3]: OSError: [Errno 28] No space left on device: '/out/x'",
        (
            "Root Cause (first observed failure):\n  rank      : 3 (local_rank: 3)\n  exitcode  "
            ": 1 (pid: 77)"
        ),
    ]
    found = verdict("\n".join(lines))
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("disk_full", 3)


def test_an_error_file_of_the_earliest_rank_comes_before_the_output() -> None:
    errors = (
        RankError("OSError: [Errno 24] Too many open files: 'x'", 10.0, 6),
        RankError("RuntimeError: No CUDA GPUs are available", 12.0, 2),
    )
    found = verdict("ModuleNotFoundError: No module named 'a'\n", errors=errors)
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("too_many_open_files", 6)
    assert "error file" in found.rests_on[0]


def test_a_hardware_xid_comes_before_text_and_a_program_s_own_does_not() -> None:
    text = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    assert verdict(text, xids=(Xid(79, 1.0, "fell off the bus"),)).kind == "gpu_hardware"
    assert verdict(text, xids=(Xid(31, 1.0, "page fault"),)).kind == "gpu_memory_access_fault"


def test_the_rank_that_did_not_come_is_named() -> None:
    line = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 "
        "milliseconds before timing out."
    )
    found = verdict("\n".join(line.format(rank, 40 if rank == 2 else 41) for rank in range(4)), -6)
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("collective_timeout", 2)
    assert "Rank 2 is furthest behind" in found.cause
    silent = "\n".join(line.format(rank, 41) for rank in (0, 1, 3))
    found = verdict(silent, -6, processes=4)
    assert isinstance(found, Diagnosis) and found.rank == 2


def test_the_rank_that_gloo_and_a_monitored_barrier_waited_for_is_named() -> None:
    gloo = (
        "[rank{0}]: RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
        "4000ms for recv operation to complete\n"
    )
    found = verdict("".join(gloo.format(rank) for rank in (1, 0, 3)), 1, processes=4)
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("collective_timeout", 2)
    assert found.rank == 2
    assert cause_text(found, "step 7").startswith("the others waited for it: a collective")
    reached = (
        "[rank{0}]: RuntimeError: Rank {0} successfully reached monitoredBarrier, but received "
        "errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
        "rank.\n"
    )
    named = "[rank0]: RuntimeError: [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 3000 ms\n"
    found = verdict(reached.format(1) + named + reached.format(2), 1, processes=4)
    assert isinstance(found, Diagnosis) and (found.kind, found.rank) == ("collective_timeout", 3)
    behind = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        "Exception (either an error or timeout) detected by watchdog at work: 9, last enqueued "
        "NCCL work: {1}, last completed NCCL work: 8.\n"
    )
    found = verdict("".join(behind.format(rank, 9 if rank else 7) for rank in range(4)), -6)
    assert isinstance(found, Diagnosis) and found.rank == 0


def test_a_warning_explains_the_error_that_follows_from_it() -> None:
    text = (
        "x.py:1: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). "
        "Error 803: system has unsupported display driver\n"
        "RuntimeError: No CUDA GPUs are available\n"
    )
    assert verdict(text).kind == "driver_mismatch"


def test_a_program_that_logs_its_exception_is_heard() -> None:
    text = "ERROR train failed: RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')\n"
    assert verdict(text).kind == "gpu_out_of_memory"


def test_bars_that_dying_ranks_close_do_not_hide_the_error() -> None:
    bar = "Epoch 3:  45%|████ | 450/1000 [00:12<00:15, 36it/s]\r"
    text = (
        f"{bar}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n{bar * 8}\n"
    )
    assert verdict(text).kind == "gpu_out_of_memory"


def test_a_long_log_is_read_at_its_ends_only(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, 2)
        file.write(b"\nOSError: [Errno 122] Disk quota exceeded: '/home/a/x'\n")
    parts = read_log(path)
    assert sum(len(part.data) for part in parts) <= HEAD_BYTES + TAIL_BYTES
    found = diagnose(Evidence(exit_code=1, logs=parts), SIGNATURES)
    assert found.kind == "disk_quota" and f"byte {1 << 30:,}"[:14] in found.rests_on[0]  # type: ignore[union-attr]


def test_evidence_is_gathered_from_a_run_s_folder(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "20261120-101500-demo-7f3a"
    rank = folder / "ranks" / "x_1" / "attempt_0" / "4"
    rank.mkdir(parents=True)
    (folder / "output.log").write_text("step 1\n")
    (rank / "stderr.log").write_text("RuntimeError: received 0 items of ancdata\n")
    message = {"message": "ValueError: odd", "extraInfo": {"timestamp": "17"}}
    (rank / "error.json").write_text(json.dumps({"message": message}))
    found = gather_evidence(make_run(State.FAILED, directory=str(folder)))
    assert [(error.rank, error.time) for error in found.errors] == [(4, 17.0)]
    decided = diagnose(found, SIGNATURES)
    assert isinstance(decided, Diagnosis)
    assert (decided.kind, decided.rank) == ("too_many_open_files", 4)


REAL = [json.loads(line) for line in (SAMPLES / "real_failures.jsonl").read_text().splitlines()]
"""Outputs of programs that were run into these failures with torch 2.13; `expect` was decided
before any was diagnosed, and is empty where no signature knows the class.
"""
_NOT_KNOWN = {"empty"}
"""A class that has a signature, in a text that says too little of it."""


@pytest.mark.parametrize("failure", REAL, ids=lambda failure: failure["id"])
def test_a_real_failure_is_diagnosed_rightly_or_not_known(failure: dict[str, str]) -> None:
    found = verdict(failure["text"], int(failure["exit"]))
    expected = "" if failure["id"] in _NOT_KNOWN else failure["expect"]
    assert (found.kind if isinstance(found, Diagnosis) else "") == expected


_SILENT = {"kill9", "term", "exit1"}
"""Nothing of these is printed: under a cascade, the cascade is all that there is."""


@pytest.mark.parametrize("before", [0, 90, 200])
@pytest.mark.parametrize("failure", REAL, ids=lambda failure: failure["id"])
def test_a_real_failure_is_never_taken_for_the_cascade_above_or_below_it(
    failure: dict[str, str], before: int
) -> None:
    found = verdict(buried(failure["text"], before, tagged=True), 1)
    expected = "" if failure["id"] in _NOT_KNOWN else failure["expect"]
    if failure["id"] in _SILENT:
        expected = "peer_rank_died_or_network"
    assert (found.kind if isinstance(found, Diagnosis) else "") == expected


@pytest.mark.parametrize("tag", ["", "[rank0]: "])
def test_an_error_that_nobody_knows_is_told_with_the_place_that_raised_it(tag: str) -> None:
    """The last frame of its own traceback; none of another's, and none where there is no frame."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/a/train.py", line 3, in <module>',
        "    main()",
        '  File "/home/a/lib/model.py", line 12, in main',
        '    weights["model"]',
        "    ~~~~~~~^^^^^^^^^",
        "KeyError: 'model'",
    ]
    found = verdict("loss 0.5\n" + "".join(f"{tag}{line}\n" for line in lines))
    assert isinstance(found, NotKnown)
    assert found.message.endswith("KeyError: 'model' (model.py, line 12)"), found.message
    alone = verdict("\n".join(lines[:2]) + "\nloss 0.5\n" * 99 + "OddError: without a frame\n")
    assert isinstance(alone, NotKnown) and alone.message.endswith("without a frame")
