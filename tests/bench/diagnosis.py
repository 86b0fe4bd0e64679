"""The verdict's figures: how long the cause of a failed run with a log of 1 GB takes to find."""

import json
import os
import subprocess
import sys
from pathlib import Path

from measure import REPOSITORY, Row, Table, spread
from place import Bench

GOAL_MS = 50
NOTE = (
    "The log's middle is a hole in the file: it is never read. NVIDIA's resiliency extension is "
    "not "
    "beside it: 0.4.1, the newest on PyPI on 21 November 2026, has no log analyser."
)
GIGABYTE = 1 << 30
# One process: the first verdict reads and compiles the signatures, the others do not.
VERDICTS = """
import json, sys, time
from pathlib import Path
from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import Evidence, read_log
from runners.diagnosis.signatures import load_signatures
took = []
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    logs = read_log(Path(sys.argv[1]))
    found = diagnose(Evidence(exit_code=1, logs=logs), load_signatures())
    took.append((time.perf_counter() - began) * 1000)
    assert found.kind == "gpu_out_of_memory", found
print(json.dumps(took))
"""
# How often the class is right where the text stands among the lines of eight ranks that die, and
# how many logs without a failure raise an alarm.
ACCURACY = """
import json, random, sys
from pathlib import Path
from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import Evidence, LogPart
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis
folder, signatures = Path(sys.argv[1]), load_signatures(Path("/nowhere"))
def kind(text, code):
    log = (LogPart("output.log", text.encode()),)
    return diagnose(Evidence(exit_code=code, logs=log), signatures)
def blocks(name):
    text = (folder / name).read_text().removeprefix("=== ")
    return [block.split("\\n", 1)[1] for block in text.split("\\n=== ")]
failures = [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]
right = total = 0
for one in failures:
    for place in (0, 90, 200):
        lines = [sys.argv[2].format(i % 8) for i in range(200)]
        text = "\\n".join([*lines[:place], one["text"], *lines[place:], ""])
        total += 1
        right += kind(text, int(one["exit"])).kind == one["expect"]
calm = [text for name in ("healthy.txt", "false_friends.txt") for text in blocks(name)]
alarms = sum(isinstance(kind(text, 1), Diagnosis) for text in calm)
print(json.dumps([len(failures), right, total, alarms, len(calm)]))
"""
STEP = "[rank{0}]: step {1} loss 0.5123 lr 1e-4 12.3 it/s\n"
CAUSE = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 518.00 MiB. GPU 0\n"
CASCADE = (
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2094, "
    "remote process exited or there was a network error, NCCL version 2.21.5\n"
)


def measure(bench: Bench) -> Table:
    """The table of the verdict."""
    place = bench.place("diagnosis")
    rows = []
    for name, step in (
        ("a log of steps", STEP),
        ("a coloured log without any count", "\x1b[32mINFO\x1b[0m something is done with a/b/c\n"),
    ):
        path = write_log(Path(place.folder) / "output.log", step)
        words = [sys.executable, "-c", VERDICTS, str(path), str(bench.count(9, 3))]
        environment = {**os.environ, "FRESNEL_STATE_DIR": str(place.folder)}
        for _ in range(2):  # the first process of an installation reads YAML for all others
            done = subprocess.run(
                words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
            )
        first, *others = json.loads(done.stdout)
        rows += [
            Row(
                f"first verdict of a process, 1 GB, {name}",
                spread([first / 1000], "s"),
                goal=f"≤ {GOAL_MS} ms",
                reached=first <= GOAL_MS,
            ),
            Row(
                f"verdict, 1 GB, {name}, 200 lines of cascade behind the cause",
                spread([one / 1000 for one in others], "s"),
                goal=f"≤ {GOAL_MS} ms",
                reached=max(others) <= GOAL_MS,
            ),
        ]
    samples = REPOSITORY / "tests" / "samples" / "diagnosis"
    words = [sys.executable, "-c", ACCURACY, str(samples), CASCADE.strip()]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    texts, right, total, alarms, calm = json.loads(done.stdout)
    rows += [
        Row(
            f"{texts} texts of failures, each in three places among 200 lines of cascade: right",
            spread([right], f"of {total}"),
            goal="all",
            reached=right == total,
        ),
        Row(
            f"{calm} healthy logs and false friends: alarms",
            spread([alarms], ""),
            goal="0",
            reached=alarms == 0,
        ),
    ]
    return Table("Diagnosis", rows, NOTE)


def write_log(path: Path, step: str) -> Path:
    """A log of 1 GB whose last lines are a cause and its cascade."""
    lines = "".join(step.format(i % 8, i) for i in range(60_000))
    with path.open("w") as file:
        file.write(lines)
        file.truncate(GIGABYTE)
        file.seek(GIGABYTE)
        file.write("\n" + lines + CAUSE + "".join(CASCADE.format(i % 8) for i in range(200)))
    return path
