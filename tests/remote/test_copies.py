"""What goes to a rented machine and what comes back, byte for byte; and its end."""

import json
import os
import signal
from pathlib import Path

from runners.host.locks import is_held
from runners.places.ssh.kept_fetches import lock_of
from runners.places.ssh.registry import RemoteRegistry
from runners.state.layout import StateDirectory
from tests.command_text import NOT_FETCHED_FROM
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.support import CEILING_S, eventually

PRESET = """\
launcher: command
command: ["python3", "-c", "{program}", "${{run_dir}}"]
working_directory: ${{working_directory}}
parameters:
  data_dir: {{value: data/training, type: str}}
gpus: 0
checkpoints: ["${{run_dir}}/checkpoints/*.pt"]
"""

# Three whole checkpoints, the second the best, and one that is being written.
PROGRAM = (
    "import os, sys, zipfile; d = sys.argv[1] + '/checkpoints'; os.mkdir(d); "
    "[zipfile.ZipFile(f'{d}/{n}.pt', 'w').writestr('x', os.urandom(99)) "
    "for n in ('epoch_1', 'best', 'epoch_2')]; "
    "open(d + '/epoch_3.pt', 'wb').write(b'PK\\\\x03\\\\x04 half'); print(os.listdir(sys.argv[3]))"
)


def _data(line: CommandLine) -> Path:
    folder = line.folder / "data" / "training"
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"{i} of three.jpg").write_bytes(os.urandom(1000))
    (line.folder / "presets").mkdir()
    (line.folder / "presets" / "mine.yaml").write_text(PRESET.format(program=PROGRAM))
    return folder


def test_push_launch_fetch_end(line: CommandLine, rented: RentedMachine) -> None:
    folder = _data(line)
    there = rented.home / "fresnel" / "data" / "training"
    planned = line.json("push", "mine", "--host", "rented", "--dry-run")
    assert [one["bytes"] for one in planned["items"] if one["what"] == "data_dir"] == [3000]
    assert not there.exists()

    line.run("push", "mine", "--host", "rented", "--exclude", "2*")
    assert sorted(path.name for path in there.iterdir()) == ["0 of three.jpg", "1 of three.jpg"]
    (folder / "1 of three.jpg").write_bytes(b"other")
    sent = line.json("push", "mine", "--host", "rented")["items"]
    assert {one["what"]: one["files"] for one in sent} == {"data_dir": 2, "preset": 0}
    assert (there / "1 of three.jpg").read_bytes() == b"other"

    run = line.run("launch", "mine", "--host", "rented", "--wait").stdout.strip()
    assert "2 of three.jpg" in line.run("logs", run, "--host", "rented").stdout
    refused = line.run("host", "end", "rented", "--end-command", "true", "--yes", exits=4)
    assert f"{NOT_FETCHED_FROM} rented: {run}" in refused.stderr

    line.run("fetch", "--all", "--host", "rented", "--to", "got")
    got = line.folder / "got" / run
    assert sorted(path.name for path in (got / "checkpoints").iterdir()) == [
        "best.pt",
        "epoch_2.pt",
    ]
    for name in ("output.log", "checkpoints/best.pt"):
        assert (got / name).read_bytes() == (rented.state / "runs" / run / name).read_bytes()

    ended = line.run("host", "end", "rented", "--end-command", "touch destroyed", "--yes")
    assert (line.folder / "destroyed").exists()
    assert "rented" in ended.stderr
    assert RemoteRegistry(line.state).names() == []
    lines = [json.loads(one) for one in StateDirectory().ledger.read_text().splitlines()]
    assert [(one["run"], one["host"]) for one in lines if one["type"] == "run"] == [(run, "rented")]


def test_what_differs_here_is_copied_anew(
    line: CommandLine, rented: RentedMachine, way: str
) -> None:
    run = line.run(
        *("launch", "--gpus", "0", "--wait", "--host", "rented", "--"),
        *("sh", "-c", "seq 1 5000; seq 1 5000 >$FRESNEL_RUN_DIR/curve.csv"),
    ).stdout.strip()
    line.run("fetch", run, "--host", "rented", "--to", "got")
    got, truth = line.folder / "got" / run, rented.state / "runs" / run
    log, curve = got / "output.log", got / "curve.csv"
    flipped = bytearray(log.read_bytes())
    flipped[1234] ^= 1
    stat = log.stat()
    log.write_bytes(bytes(flipped))
    os.utime(log, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    curve.write_bytes(curve.read_bytes()[:100])
    (again,) = line.json("fetch", run, "--host", "rented", "--to", "got")
    assert again["copied_anew"] >= 1 and again["fetched"]
    assert log.read_bytes() == (truth / "output.log").read_bytes()
    assert curve.read_bytes() == (truth / "curve.csv").read_bytes()


def test_a_live_run_is_fetched_but_not_marked(line: CommandLine, rented: RentedMachine) -> None:
    run = line.run(
        *("launch", "--gpus", "0", "--host", "rented", "--", "sh", "-c"),
        "i=0; while [ ! -e enough ]; do i=$((i+1)); printf '%01000d\n' $i; sleep 0.02; done",
    ).stdout.strip()
    truth = rented.state / "runs" / run / "output.log"
    eventually(lambda: truth.exists() and truth.stat().st_size > 10_000)
    (first,) = line.json("fetch", run, "--host", "rented", "--to", "got")
    assert first["live"] and not first["fetched"]
    here = (line.folder / "got" / run / "output.log").read_bytes()
    assert here and truth.read_bytes().startswith(here)
    assert line.json("fetched", "--host", "rented")["unfetched"] == [run]
    assert f"1 live on rented: {run}" in line.run("host", "end", "rented", exits=4).stderr

    words = ("fetch", run, "--host", "rented", "--to", "got", "--every", "1s")
    line.run(*words)
    (kept,) = line.json("fetches")
    assert kept["runs"] == [run] and kept["ended"] is None
    os.kill(int(eventually(lock_of(line.state, kept["name"]).read_text)), signal.SIGKILL)
    (rented.home / "fresnel" / "enough").touch()
    waiting = line.begin(*words, "--wait")  # whose process was lost is taken up again
    assert waiting.wait(2 * CEILING_S) == 0, waiting.communicate()
    eventually(lambda: line.json("fetches")[0]["ended"], 2 * CEILING_S)
    assert (line.folder / "got" / run / "output.log").read_bytes() == truth.read_bytes()
    assert line.json("fetched", "--host", "rented")["unfetched"] == []


def test_a_repeated_fetch_is_stopped(line: CommandLine, rented: RentedMachine) -> None:
    program = ("sleep", "1000")
    run = line.run("launch", "--gpus", "0", "--host", "rented", "--", *program).stdout.strip()
    said = line.run("fetch", "--all", "--host", "rented", "--every", "1h", exits=0).stderr
    assert "or use --every" not in said
    line.run("fetch", run, "--host", "rented", "--every", "1h")
    lock = lock_of(line.state, f"rented-{run}")
    eventually(lambda: is_held(lock))
    line.run("fetches", "stop", "sleep")
    eventually(lambda: not is_held(lock))
    assert run not in str(line.json("fetches"))
