"""How a run's end is put in words."""

from pathlib import Path

import pytest

from runners.lifecycle.supervisor.exit_report import failed_rank, last_error
from runners.model.endings import Ending, EndingCause, code_text, ending_text

REPORT = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 27806)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_03:02:30
  rank      : {rank} (local_rank: 1)
  exitcode  : {code} (pid: 27807)
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "killed by SIGKILL (out of memory, or killed by somebody)"),
        (1, "exit code 1"),
        (-11, "killed by SIGSEGV"),
    ],
)
def test_the_rank_that_failed_first_is_named(tmp_path: Path, code: int, words: str) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(b"\xff epoch 1\n" * 20_000 + REPORT.format(rank=3, code=code).encode())
    failed = failed_rank(output)
    assert failed == (3, code if code > 0 else 128 - code)
    ending = Ending(cause=EndingCause.FAILED, rank=failed[0], rank_code=failed[1])
    assert ending_text(ending, 1) == f"rank 3 failed first: {words}"


@pytest.mark.parametrize(
    "text", ["", "rank : 1\nexitcode : 2\n", "Root Cause (first observed failure):\n"]
)
def test_other_output_names_no_rank(tmp_path: Path, text: str) -> None:
    (tmp_path / "output.log").write_text(text)
    assert failed_rank(tmp_path / "output.log") is None
    assert failed_rank(tmp_path / "missing.log") is None


@pytest.mark.parametrize(
    ("code", "word"), [(137, "SIGKILL"), (127, "not found"), (3, "exit code 3"), (255, "255")]
)
def test_exit_codes_in_words(code: int, word: str) -> None:
    assert word in code_text(code)


TRACEBACK = """\
step 3 loss: 0.5
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError("never mind")
ValueError: never mind

During handling of the above exception, another exception occurred:

torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
RANKS = """\
[rank1]: Traceback (most recent call last):
[rank1]: RuntimeError: the data of rank 1 is gone
[rank0]: torch.distributed.DistBackendError: connection closed by peer
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
TEED = """\
[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:14990
[rank2]:[rank2]: Traceback (most recent call last):
[rank2]:[rank2]: ValueError: bad sample 4711
[rank1]:[rank1]: RuntimeError: Connection closed by peer [127.0.0.1]:52628
"""


@pytest.mark.parametrize(
    ("text", "reason", "rank"),
    [
        (TRACEBACK, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            None),
        (RANKS, "RuntimeError: the data of rank 1 is gone", 1),
        (RANKS + REPORT.format(rank=0, code=1),
         "torch.distributed.DistBackendError: connection closed by peer", 0),
        (TEED + REPORT.format(rank=2, code=1), "ValueError: bad sample 4711", 2),
        (TEED + REPORT.format(rank=3, code=-9), "", None),
        (TRACEBACK + REPORT.format(rank=3, code=1),
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", None),
        ("KeyError: 1\n[rank2]: RuntimeError: lost\n" + REPORT.format(rank=0, code=1),
            "KeyError: 1", None),
        ("KeyError: 1\n[rank2]: RuntimeError: lost\n" + REPORT.format(rank=1, code=1), "", None),
        ("\x1b[31mKeyError\x1b[0m: 'loss'\n", "KeyError: 'loss'", None),
        ("mlflow.exceptions.MlflowException: no such run\n",
            "mlflow.exceptions.MlflowException: no such run", None),
        ("AssertionError\n", "AssertionError", None),
        ("epoch 3 loss: 0.5\nError rate: 0.3\nval error: 0.2\n", "", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_the_reason_is_the_last_error_of_the_rank_that_failed_first(
    tmp_path: Path, text: str, reason: str, rank: int | None
) -> None:
    (tmp_path / "output.log").write_text(text)
    assert last_error(tmp_path / "output.log") == (reason, rank)


def test_the_exception_of_the_first_rank_is_the_reason_and_no_exit_code_is_said_twice() -> None:
    ending = Ending(cause=EndingCause.FAILED, rank=2, error="ValueError: bad sample 4711")
    assert ending_text(ending, 1) == "rank 2: ValueError: bad sample 4711"
    unsure = Ending(cause=EndingCause.FAILED, rank=2, rank_code=1, error="KeyError: 1")
    assert ending_text(unsure, 1) == "KeyError: 1; rank 2 failed first: exit code 1"


def test_a_reason_is_no_novel(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("ValueError: " + "x" * 5000)
    assert len(last_error(tmp_path / "output.log")[0]) == 200
