"""output_limit: the middle of a long output goes, while the program writes on and after it has
ended.
"""

import re
import time
from pathlib import Path

import pytest

from runners.lifecycle.supervisor.output_limit import OutputLimit
from runners.watch.logs.render import read_line
from tests.command_text import CUT_FROM_HERE, NOT_CUT_WHILE_IT_LASTS, bytes_cut
from tests.process.conftest import CommandLine, events
from tests.support import eventually

LIMIT = 64 << 10
LINE = 100
# Writes a megabyte of numbered lines, waits for the file `go`, writes a few more.
CHATTY = """
import pathlib, sys, time
for i in range(10000): print(f"line {i} ".ljust(99, "x"))
print("first part over", flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.01)
for i in range(10): print(f"last {i}")
"""
PRESET = (
    f"launcher: python\ninterpreter: ${{python}}\nscript: chatty.py\ngpus: "
    f"0\noutput_limit: {LIMIT >> 10}K\n"
)


def numbered(count: int, start: int = 0) -> bytes:
    """`count` lines of 100 bytes."""
    return b"".join(
        f"line {i} ".encode().ljust(LINE - 1, b"x") + b"\n" for i in range(start, start + count)
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


@pytest.fixture
def complaints() -> list[str]:
    return []


def test_a_hole_is_cut_under_a_writer_and_the_end_is_compact(
    output: Path, complaints: list[str]
) -> None:
    keeper = OutputLimit(output, LIMIT, complaints.append)
    with output.open("ab", buffering=0) as writer:
        writer.write(numbered(5000))
        keeper.poll(time.monotonic())
        writer.write(numbered(5000, 5000))
        keeper.next_poll = 0.0
        keeper.poll(time.monotonic())
        written = 10000 * LINE
        found = output.stat()
        assert found.st_size == written, "nothing moves under the writer"
        assert found.st_blocks * 512 <= LIMIT + LIMIT // 8
    content = output.read_bytes()
    assert content.startswith(numbered(100)) and content.endswith(numbered(100, 9900))
    assert b"cut from here by output_limit" in content
    keeper.compact()
    content = output.read_bytes()
    assert len(content) <= LIMIT and b"\0" not in content
    assert content.startswith(numbered(100)) and content.endswith(numbered(100, 9900))
    note = re.search(
        rb"\n\xe2\x80\xa6 ([\d,]+) bytes cut by output_limit 65,536 \xe2\x80\xa6 *\n", content
    )
    assert note and int(note[1].replace(b",", b"")) + len(content) - len(note[0]) == written
    keeper.compact()
    assert output.read_bytes() == content, "done twice is done once"
    assert not complaints


def test_a_short_output_and_no_limit_are_left_alone(output: Path, complaints: list[str]) -> None:
    output.write_bytes(numbered(600))
    before = output.stat()
    for limit in (None, LIMIT):
        keeper = OutputLimit(output, limit, complaints.append)
        keeper.poll(time.monotonic())
        keeper.compact()
    assert output.stat().st_ino == before.st_ino and output.read_bytes() == numbered(600)
    assert OutputLimit(output, None, complaints.append).poll(0.0) == float("inf")


def test_a_file_that_cannot_be_cut_is_said_once(output: Path, complaints: list[str]) -> None:
    keeper = OutputLimit(output, LIMIT, complaints.append)
    keeper.poll(time.monotonic())
    assert keeper.poll(time.monotonic()) == float("inf")
    assert len(complaints) == 1 and NOT_CUT_WHILE_IT_LASTS in complaints[0]
    keeper.compact()
    assert len(complaints) == 2


def test_a_hole_is_one_short_word_in_the_log_pane() -> None:
    assert read_line(b"before" + bytes(50_000) + b"after\n").text == "before␀×50,000after"
    assert read_line(b"one\0two\n").text == "one␀two"


def chatty(cli: CommandLine) -> Path:
    (cli.folder / "chatty.py").write_text(CHATTY)
    preset = cli.folder / "chatty.yaml"
    preset.write_text(PRESET)
    return preset


def test_logs_step_over_the_hole_and_the_ending_is_compact(cli: CommandLine) -> None:
    run = cli.launch(str(chatty(cli)))
    eventually(lambda: run.output.stat().st_size > 10_000 * LINE, what="the first part")
    eventually(lambda: run.output.stat().st_blocks * 512 < 2 * LIMIT, what="a hole")
    shown = cli.run("logs", run.id).stdout
    assert "\0" not in shown and len(shown) < 2 * LIMIT
    assert "line 0 " in shown and "first part over" in shown and CUT_FROM_HERE in shown
    follower = cli.begin("logs", "-f", run.id)
    cli.kill_supervisor(run)
    cli.run("list")  # adopts it
    (cli.folder / "go").touch()
    assert cli.ended(run)["state"] == "done"
    followed = follower.communicate()[0].decode()
    assert (
        follower.returncode == 0
        and followed.count("last 9") == 1
        and followed.count("line 0 ") == 1
    )
    content = run.output.read_text()
    assert len(content.encode()) <= LIMIT and "\0" not in content
    assert "line 0 " in content and "last 9" in content and bytes_cut("65,536") in content
    assert not events(run, "alert")
    assert cli.run("logs", run.id).stdout == content


def test_a_limit_that_keeps_nothing_is_wrong_input(cli: CommandLine) -> None:
    said = cli.run("plan", str(chatty(cli)), "--set", "output_limit=10K", exits=2).stderr
    assert "output_limit" in said and "at least 64K" in said
    assert cli.json("plan", str(chatty(cli)))["spec"]["output_limit"] == LIMIT
