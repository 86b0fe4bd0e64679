"""The check for machines with an NVIDIA GPU, here on a stand-in driver and a stand-in nvidia-smi:
it can say no.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stubs import nvml as stub
from tests.support import REPOSITORY

CHECK = REPOSITORY / "tests/hardware/check_nvidia.py"
SCENE = """\
driver 570.86.15
gpu 0 uuid GPU-6d1c
gpu 0 name NVIDIA H100 80GB HBM3
gpu 0 utilization 7
gpu 0 memory_utilization 3
gpu 0 power 70250
gpu 0 clock 345
gpu 0 ecc error 3
"""
GPU = {
    "index": "0",
    "uuid": "GPU-6d1c",
    "name": "NVIDIA H100 80GB HBM3",
    "pci.bus_id": "00000000:17:00.0",
    "driver_version": "570.86.15",
    "utilization.gpu": "9",
    "utilization.memory": "3",
    "memory.total": "81920",
    "memory.used": "1024",
    "temperature.gpu": "30",
    "power.draw": "71.10",
    "enforced.power.limit": "700.00",
    "clocks.sm": "345",
    "clocks.mem": "2619",
    "ecc.errors.uncorrected.volatile.total": "[N/A]",
}
# Answers what is asked for, in the order it is asked for.
SMI = """\
#!/usr/bin/env python3
import sys
what, _, fields = sys.argv[1].removeprefix("--query-").partition("=")
gpu = {gpu!r}
if what == "gpu":
    print(", ".join(gpu[field] for field in fields.split(",")))
else:
    print(open({pids!r}).read(), end="")
"""
# Takes VRAM as far as the stand-in driver knows, until it is told to end.
PROGRAM = """\
import os, signal, sys, time
scene, pids, base = sys.argv[0] + ".scene", sys.argv[0] + ".pids", open(sys.argv[0] + ".base").read()
def write(path, text):
    open(path + ".new", "w").write(text)
    os.replace(path + ".new", path)
def leave(*_):
    write(scene, base)
    os._exit(0)
signal.signal(signal.SIGINT, leave)
size = int(sys.argv[1])
write(pids, f"{os.getpid()}, {size >> 20}\\n")
write(scene, base + f"gpu 0 memory_used {(1 << 30) + size}\\nprocess 0 {os.getpid()} {size} compute\\n")
print(f"holding {size} bytes by nothing", flush=True)
while True: time.sleep(60)
"""


def _check(tmp_path: Path, gpu: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "program.py.base").write_text(SCENE)
    smi = tmp_path / "nvidia-smi"
    smi.write_text(SMI.format(gpu=gpu, pids=f"{program}.pids"))
    smi.chmod(0o755)
    scenario = stub.write_scenario(tmp_path / "program.py.scene", SCENE)
    environment = stub.environment(stub.build(tmp_path), scenario) | {"HOME": str(tmp_path)}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, str(CHECK), "--program", str(program), "--readings", "1", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(stub.compiler() is None, reason="no C compiler to build the stand-in NVML with")
def test_what_agrees_and_a_run_that_comes_and_goes_is_a_table_of_yes(tmp_path: Path) -> None:
    done = _check(tmp_path, GPU, "--markdown", str(tmp_path / "table.md"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "**no**" not in done.stdout and done.stdout.count("| yes |") == 15
    assert "2,048 MiB under the run" in done.stdout and "| at most 0.85 off |" in done.stdout
    assert (tmp_path / "table.md").read_text() in done.stdout


@pytest.mark.skipif(stub.compiler() is None, reason="no C compiler to build the stand-in NVML with")
def test_what_does_not_agree_is_told_by_name(tmp_path: Path) -> None:
    wrong = GPU | {
        "power.draw": "471.10",
        "ecc.errors.uncorrected.volatile.total": "0",
        "uuid": "GPU-else",
    }
    done = _check(tmp_path, wrong)
    assert done.returncode == 1, done.stdout + done.stderr
    refused = [line for line in done.stdout.splitlines() if line.endswith("| **no** |")]
    assert len(refused) == 3
    assert "GPU-6d1c for GPU-else" in refused[0] and "GPU 0: 70.25 for 471.10" in refused[1]
    assert "GPU 0: None for 0" in refused[2]


def test_without_a_gpu_there_is_nothing_to_check(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(CHECK)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "") and "no NVIDIA GPU" in done.stderr
