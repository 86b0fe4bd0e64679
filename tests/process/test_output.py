"""output.log is what the program wrote, byte for byte; `logs` shows it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.model.states import State
from tests.process.conftest import COMMAND, CommandLine
from tests.support import eventually


def blob(cli: CommandLine, data: bytes) -> Path:
    path = cli.folder / "blob"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no newline",
        b"\0\1\2\xff\xfe\r\n\x1b[31mred\x1b]0;title\x07\r50%\r100%\n",
        bytes(range(256)) * 64,
        b"x" * (1 << 20) + b"\n" + b"after\n",
        "ünï\u2028\u2029\n".encode(),
    ],
    ids=["empty", "no newline", "control", "binary", "a line of a megabyte", "unicode"],
)
def test_bytes_come_out_as_they_went_in(cli: CommandLine, data: bytes) -> None:
    run = cli.command("cat", str(blob(cli, data)))
    cli.ended(run)
    assert run.output.read_bytes() == data
    shown = subprocess.run(
        [*COMMAND, "logs", run.id],
        env=cli.environment({}),
        cwd=cli.folder,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert shown.stdout == data


def test_a_gigabyte_s_worth_of_one_line_needs_no_memory_of_ours(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "head -c 50000000 /dev/zero; echo; echo end")
    cli.ended(run)
    assert run.output.stat().st_size == 50_000_005
    assert cli.run("logs", run.id, "-n", "1").stdout == "end\n"


@pytest.mark.parametrize(
    ("text", "count", "shown"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc\n", 99, "a\nb\nc\n"),
        ("a\nb\n\n", 2, "b\n\n"),
        ("a\n", 0, ""),
        ("", 3, ""),
        ("x" * 3_000_000 + "\nlast\n", 1, "last\n"),
    ],
    ids=[
        "some",
        "no newline at the end",
        "more than there are",
        "an empty line",
        "none",
        "empty",
        "after a long line",
    ],
)
def test_the_last_lines(cli: CommandLine, text: str, count: int, shown: str) -> None:
    run = cli.command("cat", str(blob(cli, text.encode())))
    cli.ended(run)
    assert cli.run("logs", run.id, "-n", str(count)).stdout == shown


def test_logs_follow_until_the_run_has_ended(cli: CommandLine) -> None:
    gate = cli.folder / "gate"
    os.mkfifo(gate)
    run = cli.command("sh", "-c", f"echo one; cat '{gate}'; echo three; exit 5", ready="one")
    child = cli.begin("logs", "-f", run.id)
    assert child.stdout is not None
    assert child.stdout.readline() == b"one\n"
    gate.write_text("two\n")
    rest, said = child.communicate()
    assert (rest, child.returncode) == (b"two\nthree\n", 0), said


def test_logs_of_an_ended_run_do_not_wait(cli: CommandLine) -> None:
    run = cli.command("echo", "all")
    cli.ended(run)
    assert cli.run("logs", "-f", run.id).stdout == "all\n"


def test_a_reader_that_has_left_before_the_end_is_no_error(cli: CommandLine) -> None:
    """What is said last, too, when all of it fits into one piece."""
    cli.ended(cli.command("true"))
    buffered = {**cli.environment({}), "PYTHONUNBUFFERED": ""}
    for word in ("list", "--version", "--help"):
        reads, writes = os.pipe()
        os.close(reads)
        told = subprocess.PIPE
        done = subprocess.run(
            [*COMMAND, word], env=buffered, stdout=writes, stderr=told, check=False
        )
        os.close(writes)
        assert (word, done.stderr, done.returncode) == (word, b"", 0)


def test_a_reader_that_leaves_is_no_error(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "yes 0123456789 | head -c 5000000")
    cli.ended(run)
    line = " ".join([*COMMAND, "logs", run.id, "| head -n 1; exit ${PIPESTATUS[0]}"])
    done = subprocess.run(
        ["bash", "-c", line],
        env=cli.environment({}),
        cwd=cli.folder,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"0123456789\n", b"", 0)


def test_two_writers_share_one_file_without_overwriting(cli: CommandLine) -> None:
    script = "for i in 1 2 3 4; do (for j in $(seq 200); do echo line-$i-$j; done) & done; wait"
    run = cli.command("sh", "-c", script)
    cli.ended(run)
    assert sorted(run.output.read_text().split()) == sorted(
        f"line-{i}-{j}" for i in range(1, 5) for j in range(1, 201)
    )


def test_a_full_disk_is_said_in_words(cli: CommandLine, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (disk / "ballast").write_bytes(b"")
        _fill(disk / "ballast")
        done = cli.run(
            "launch", "--gpus", "0", "--", "true", exits=1, FRESNEL_STATE_DIR=str(disk / "state")
        )
        assert os.strerror(errno.ENOSPC) in done.stderr and str(disk) in done.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_disk_that_fills_up_loses_no_run(cli: CommandLine, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    place = {"FRESNEL_STATE_DIR": str(disk / "state")}
    try:
        gate = cli.folder / "gate"
        os.mkfifo(gate)
        script = f"open({str(gate)!r}).read(); raise SystemExit(7)"
        run_id = cli.run(
            "launch", "--gpus", "0", "--", sys.executable, "-S", "-c", script, **place
        ).stdout.strip()
        ballast = disk / "ballast"

        def state() -> object:
            return json.loads(cli.run("status", run_id, "--json", **place).stdout)["state"]

        eventually(lambda: state() == State.RUNNING)
        _fill(ballast)
        gate.write_text("go\n")
        assert state() == State.RUNNING
        ballast.unlink()
        done = cli.run("wait", run_id, "--json", exits=1, **place)
        ended = json.loads(done.stdout)
        assert (ended["exit_code"], ended["state"]) == (7, State.FAILED)
        marker = disk / "state" / "live" / run_id
        eventually(lambda: not marker.exists())
    finally:
        eventually(
            lambda: (
                not subprocess.run(["umount", disk], capture_output=True, check=False).returncode
            )
        )


def _fill(path: Path) -> None:
    """Write until the disk takes no more."""
    with path.open("ab", buffering=0) as file:
        for size in (65536, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
