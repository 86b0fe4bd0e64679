"""Whole samples of every kind of file that is read: what they are before they are damaged."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from runners.cost.ledger import RunEntry
from runners.cost.sessions import Session, SessionLine
from runners.gpus.usage import usage_file
from runners.guard.rule import GuardRule, GuardState
from runners.guard.sweep_watch import SweepWatch
from runners.host.clock import Moment
from runners.host.identity import boot_id, host_name
from runners.lifecycle.control.trash import DeletedMark
from runners.model.endings import Ending, EndingCause
from runners.model.gpus import (
    GpuInterval,
    GpuReading,
    GpuSnapshot,
    GpuUse,
    RunUsage,
    UsageInterval,
)
from runners.model.health import Condition, Health
from runners.model.plan import AssignedGpu, Estimate, Origin
from runners.model.run import Labels, QueueStatus, RunRecord, StopIntent
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.live_letters import LetterTable
from runners.watch.metrics.final import FILE as FINAL
from tests.fuzz.mutations import Step, changed_bytes, changed_json
from tests.support import REPOSITORY, make_plan

START = 1_790_000_000.0
GPUS = (AssignedGpu(0, "GPU-0", "H100", 0, card="GPU-0", part=(1, 7)),)
PRICE = Price("1.99", "gpu", "flag", "h100", "a list", "2026-11-01", 3600, 60)
AWAY = "another-host"


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def _bytes_field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def tensorboard() -> bytes:
    """Scalars of both kinds, and a tensor with its numbers listed."""
    listed = b"\x08\x01" + b"\x2d" + struct.pack("<f", 0.5)
    packed = b"\x08\x01\x12\x00\x22\x04" + struct.pack("<f", 0.25)
    values = (b"\x15" + struct.pack("<f", 0.5), _bytes_field(8, listed), _bytes_field(8, packed))
    content = b""
    for step, value in enumerate(values * 2):
        summary = _bytes_field(1, _bytes_field(1, b"loss") + value)
        moment = b"\x09" + struct.pack("<d", START + step)
        event = moment + b"\x10" + _varint(step) + _bytes_field(5, summary)
        content += struct.pack("<QI", len(event), 0) + event + bytes(4)
    return content


def wandb() -> bytes:
    """A few steps of a history, in records of LevelDB's log."""
    content = b":W&B\xe1\xbe\x00"
    for step in range(4):
        items = {"loss": 1 / (step + 1), "_step": step, "_timestamp": START + step}
        history = b"".join(
            _bytes_field(
                1, _bytes_field(1, key.encode()) + _bytes_field(16, json.dumps(one).encode())
            )
            for key, one in items.items()
        )
        record = _bytes_field(2, history + _bytes_field(2, b"\x08" + _varint(step)))
        content += struct.pack("<IHB", zlib.crc32(record), len(record), 1) + record
    return content


def zipped() -> bytes:
    """A checkpoint of torch's, by its form."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", bytes(300))
    return buffer.getvalue()


def safetensors() -> bytes:
    """One tensor behind its header."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


def hdf5() -> bytes:
    """A superblock of version 0, and what it says the file has."""
    head = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
    return (head + bytes(8) + b"\xff" * 8 + struct.pack("<Q", 200) + b"\xff" * 8).ljust(200, b"x")


def events() -> bytes:
    """Everything that a trainer reports."""
    lines: list[dict[str, Any]] = [
        {"type": "start", "epochs": 3, "steps": 30, "settings": {"lr": 1}}
    ]
    for step in range(1, 7):
        values = {"loss": 1 / step, "lr": 0.1}
        lines.append({"type": "metrics", "step": step, "epoch": 1 + step // 3, "values": values})
    lines += [
        {"type": "epoch", "epoch": 1, "seconds": 9.5, "values": {"psnr": 20.0}},
        {"type": "checkpoint", "path": "/tmp/none.pt", "epoch": 1, "step": 3, "bytes": 9},
        {"type": "image", "path": "a.png", "caption": "first"},
        {"type": "summary", "values": {"psnr": 21.0}},
    ]
    stamped = [{"time": START + at, **line} for at, line in enumerate(lines)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in stamped)


def alerts() -> bytes:
    """What a supervisor notes."""
    lines = [
        {"type": "state", "state": "running", "attempt": 1, "arguments": []},
        {"type": "alert", "text": "loss flat", "condition": str(Condition.FLAT)},
        {"type": "stop", "rung": "SIGINT", "until": START, "signalled": [12]},
    ]
    return b"".join(json.dumps({"time": START, **line}).encode() + b"\n" for line in lines)


def intervals() -> bytes:
    """What the sampler writes of a run's GPUs."""
    gpus = (GpuInterval(0, "GPU-0", 90.0, 1 << 30, 300.0, 60.0),)
    lines = [UsageInterval(START + 10 * at, 10.0, gpus) for at in range(3)]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def csv() -> bytes:
    """Lightning's metrics.csv."""
    return b"epoch,step,train_loss\n0,1,0.5\n0,2,0.4\n1,3,0.3\n"


def trainer_state() -> bytes:
    """Hugging Face's history."""
    history = [{"loss": 1 / step, "epoch": step / 4, "step": step} for step in range(1, 5)]
    return json.dumps({"log_history": history, "global_step": 4}).encode()


def outputs() -> list[bytes]:
    """The beginnings of what real programs print."""
    return [
        path.read_bytes()[:3000] for path in sorted((REPOSITORY / "tests/samples").glob("*.txt"))
    ]


def presets() -> list[bytes]:
    """The presets that are shipped."""
    return [path.read_bytes() for path in sorted((REPOSITORY / "presets").glob("*.yaml"))]


class Sample(NamedTuple):
    """A file by its name, with its whole content, and how it is damaged."""

    name: str
    content: bytes
    change: Callable[[bytes, list[Step]], bytes] = changed_bytes


def files_of_a_run() -> list[Sample]:
    """What programs and the sampler write into a run's folder."""
    return [
        Sample("events.out.tfevents.1.here", tensorboard()),
        Sample("run-1.wandb", wandb()),
        Sample("metrics.csv", csv()),
        Sample("trainer_state.json", trainer_state(), changed_json),
        Sample("checkpoints/a.pt", zipped()),
        Sample("checkpoints/b.safetensors", safetensors()),
        Sample("checkpoints/c.h5", hdf5()),
        Sample("events.jsonl", events()),
        Sample("supervisor.jsonl", alerts()),
        Sample("gpus.jsonl", intervals()),
        *(Sample("output.log", content) for content in outputs()),
    ]


def state_files(run: RunDirectory, is_live: bool) -> dict[str, bytes]:
    """The files of state of a run that lives on another host, or of one that has ended."""
    record = (
        RunRecord(State.RUNNING, host=AWAY, boot_id=boot_id(), started=START, leader_pid=1 << 22)
        if is_live
        else RunRecord(
            State.FAILED,
            host=host_name(),
            boot_id=boot_id(),
            started=START,
            ended=START + 60,
            exit_code=1,
            began=Moment(START, boot_id(), 10**12),
            finished=Moment(START + 60, boot_id(), 10**12 + 60 * 10**9),
            ending=Ending(cause=EndingCause.FAILED),
        )
    )
    plan = make_plan(
        run.id,
        origin=Origin("anna", AWAY if is_live else host_name(), boot_id(), START),
        directory=str(run.path),
        total_epochs=3,
        gpus=GPUS,
        price=PRICE,
        forecast=Estimate(60.0, "0.5", "of the preset"),
    )
    use = GpuUse(0, "GPU-0", "H100", 0, mean_utilization=90.0)
    final = {
        "ended": START + 60,
        "progress": {"epoch": 3, "epochs": 3, "step": 9, "steps": 9, "fraction": 1.0},
        "metrics": {"loss": {"last": 0.5, "best": 0.1, "best_step": 3, "source": "events"}},
        "headline": "loss",
        "trend": [1.0, 0.5],
        "checkpoints": ["/tmp/none.pt"],
    }
    known: dict[str, object] = {
        "plan.json": plan,
        "spec.json": plan.spec,
        "state.json": record,
        "labels.json": Labels(name="named", tags=("good",), note="a note"),
        usage_file(run.path).name: RunUsage(run.id, START, (use,)),
    }
    if is_live:
        known["stop.json"] = StopIntent(START, "anna")
        known["waits.json"] = QueueStatus("GPU 0 is busy", 1, START)
        known["health.json"] = Health(Condition.FLAT, "loss is flat", START, START)
        known["tty.json"] = {"waiting": True, "prompt": "Go on? "}
        known["printed.json"] = {"paths": ["/tmp/none.pt"]}
    else:
        known[FINAL] = final
    return {name: msgspec.json.encode(value) for name, value in known.items()}


def machine_files(live: str, ended: str) -> dict[str, bytes]:
    """The files of a state folder that are no run's, by their names below it."""
    mine, began = f"hosts/{host_name()}", Moment(START, boot_id(), 10**12)
    session = Session(START, host_name(), PRICE, 1, "100", id="one", began=began, uuids=("GPU-0",))
    entry = RunEntry(
        ended, host_name(), "demo", "demo", "done", GPUS, PRICE, began, Moment(START + 60)
    )
    rule = GuardRule("rule-1", "anna", began, budget_stop="90%", max_age_s=3600.0)
    gpu = GpuSnapshot(0, "GPU-0", "H100", "nvidia", memory_total=80 << 30, memory_used=1 << 30)
    reading = GpuReading(START, host_name(), "simulated", (gpu,))
    values: dict[str, object] = {
        f"{mine}/session.json": session,
        f"hosts/{AWAY}/session.json": msgspec.structs.replace(session, host=AWAY),
        f"guards/{host_name()}/guard.json": rule,
        f"{mine}/gpus.json": reading,
        "letters.json": LetterTable({live: "A"}, 1),
        "panel.json": {"theme": "nord"},
        "charts.json": {"pinned_charts": ["loss"]},
        f"trash/{ended}-gone/deleted.json": DeletedMark("anna", START),
        "sweeps/lr-1.json": SweepWatch("lr-1", (live, ended), AWAY),
        f"runs/{live}/overrun.json": {"will": "2", "expected": "1", "text": "much"},
    }
    files = {name: msgspec.json.encode(value) for name, value in values.items()}
    slot = {"turn": 1, "value": msgspec.to_builtins(GuardState("rule-1", since=began))}
    files[f"guards/{host_name()}/progress.json"] = json.dumps(slot).encode() + b"\n"
    lines = [msgspec.json.encode(SessionLine(session)), msgspec.json.encode(entry)]
    files["ledger.jsonl"] = b"".join(line + b"\n" for line in lines)
    return files
