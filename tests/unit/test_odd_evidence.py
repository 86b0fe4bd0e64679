"""What a program may leave behind that no program should: a verdict is made of it all the same."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import Evidence, LogPart, gather_evidence
from runners.diagnosis.explain import explain_run
from runners.diagnosis.full_disk import disk_in, find_full_disk
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis
from runners.model.run import Run
from runners.model.states import State
from tests.support import make_plan, make_run

SIGNATURES = load_signatures(Path("/nowhere"))


def left(tmp_path: Path, output: bytes = b"", error: bytes = b"") -> Run:
    """A failed run whose program left these."""
    folder = tmp_path / "runs" / "20261128-000000-odd-0001"
    (folder / "attempt_0" / "3").mkdir(parents=True)
    (folder / "output.log").write_bytes(output)
    (folder / "attempt_0" / "3" / "error.json").write_bytes(error)
    plan = make_plan(directory=str(folder), working_directory=str(tmp_path))
    return make_run(State.FAILED, ended=2000.0, plan=plan, directory=str(folder))


@pytest.mark.parametrize(
    "error",
    [
        b'{"message": {"message": "FileNotFoundError: \\udcff.npy"}}',
        b'{"message": {"message": "FileNotFoundError: x", "extraInfo": {"timestamp": %s}}}'
        % (b"9" * 400),
        b'{"message": {"message": "FileNotFoundError: x", "extraInfo": {"timestamp": "nan"}}}',
    ],
    ids=["half a character", "a time beyond floats", "no time"],
)
def test_an_error_file_of_odd_values_is_read(tmp_path: Path, error: bytes) -> None:
    found = diagnose(gather_evidence(left(tmp_path, error=error)), SIGNATURES)
    assert (found.kind, found.rank) == ("file_missing", 3)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"Root Cause (first observed failure):\n rank : %s exitcode : 1\n", 1),
        (b"failed (exitcode: %s) local_rank: 1\n", 1),
        (b"[%s]: error: no such option\n", 2),
    ],
)
def test_numbers_that_no_rank_has_are_no_error_of_ours(text: bytes, code: int) -> None:
    logs = (LogPart("output.log", text % (b"1" * 5000)),)
    assert diagnose(Evidence(exit_code=code, logs=logs), SIGNATURES).kind


def test_a_gpu_s_error_is_no_end_by_the_memory_killer() -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
    other = "python invoked oom-killer: gfp_mask=0x100cca, order=0, oom_score_adj=4711"
    ours = "Out of memory: Killed process 4711 (python) total-vm:81234816kB"
    memory = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4711,uid=1000"
    for record, kind in ((xid, "killed_unknown"), (other, "killed_unknown")):
        given = Evidence(exit_code=137, kernel=(record,), pids=frozenset({4711}))
        assert diagnose(given, SIGNATURES).kind == kind
    for record in (ours, memory):
        given = Evidence(exit_code=137, kernel=(record,), pids=frozenset({4711}))
        assert diagnose(given, SIGNATURES).kind == "host_out_of_memory"


def test_a_null_byte_in_a_path_that_the_output_names_ends_nothing(tmp_path: Path) -> None:
    line = f"OSError: [Errno 28] No space left on device: {tmp_path}/\0x\n"
    assert explain_run(left(tmp_path, line.encode())).kind == "disk_full"
    assert disk_in(line)


def test_an_image_that_is_only_read_is_no_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(flags: int) -> object:
        return SimpleNamespace(
            f_frsize=4096, f_blocks=1000, f_bavail=0, f_files=10, f_favail=0, f_flag=flags
        )

    run = left(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _folder: full(os.ST_RDONLY))
    assert find_full_disk(run) == ""
    monkeypatch.setattr(os, "statvfs", lambda _folder: full(0))
    assert find_full_disk(run)


def test_a_secret_in_what_was_found_is_masked_in_the_title_too(tmp_path: Path) -> None:
    line = b"FileNotFoundError: [Errno 2] No such file or directory: 'https://me:hunter22@host/x'\n"
    found = explain_run(left(tmp_path, line))
    assert isinstance(found, Diagnosis) and "https://me:" in found.title
    assert "hunter22" not in repr(found)


_PASSED = b"ModuleNotFoundError: No module named 'flash_attn'\n"
_ENDED = b'Traceback (most recent call last):\n  File "t.py", line 9, in f\nValueError: boom\n'
_STEPS = b"".join(
    b"step %d loss 0.5, and as many words as fill a line\n" % i for i in range(40_000)
)


def of_rank(number: int) -> bytes:
    """torchrun's word that this rank failed first."""
    return b"failed (exitcode: 1) local_rank: %d (pid: 1) of binary: python\n" % number


def test_what_a_long_log_s_program_got_over_is_no_cause(tmp_path: Path) -> None:
    # Its beginning has no progress of its own: that comes where nobody reads.
    words = b"a line of its configuration\n" * 6000
    run = left(tmp_path, _PASSED + words + _STEPS + _ENDED)
    evidence = gather_evidence(run)
    assert len(evidence.logs) == 2
    assert diagnose(evidence, SIGNATURES).line == "ValueError: boom"


@pytest.mark.parametrize(("failed", "line"), [(0, "ValueError: boom"), (1, _PASSED.decode())])
def test_what_a_rank_got_over_is_no_cause_though_its_log_has_no_progress(
    tmp_path: Path, failed: int, line: str
) -> None:
    run = left(tmp_path, b"[rank1]:" + _PASSED + _STEPS[:4096] + _ENDED + of_rank(failed))
    folder = Path(run.directory) / "ranks" / "job" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_bytes(_PASSED)
    assert diagnose(gather_evidence(run), SIGNATURES).line == line.strip()


def test_ranks_are_heard_beside_thousands_of_files_of_the_program(tmp_path: Path) -> None:
    run = left(tmp_path)
    (images := Path(run.directory) / "images").mkdir()
    for number in range(1100):
        (images / f"{number}.png").touch()
    folder = Path(run.directory) / "ranks" / "job" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_bytes(_PASSED)
    assert diagnose(gather_evidence(run), SIGNATURES).kind == "module_missing"
