"""Other people's programs to compare with, installed into an environment of their own; and the
driver they share.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measure import REPOSITORY, write

NVITOP = "1.7.2"
# What nvitop asks for. What the tests' stand-in NVML has of it is the stand-in's; the rest is
# answered with NVML_ERROR_NOT_SUPPORTED.
_MORE = """
ComputeMode DecoderUtilization DisplayActive DisplayMode DriverModel DriverModel_v2 EncoderUtilization FanSpeed
PerformanceState PersistenceMode PowerManagementLimit MaxClockInfo ProcessUtilization PcieThroughput BAR1MemoryInfo
CudaComputeCapability MemoryBusWidth NvLinkState TotalEnergyConsumption
"""


WANDB = "0.31.0"


def nvitop() -> tuple[Path | None, str]:
    """The program, installed on the first use into the user's cache; or None and why it could not
    be.
    """
    return _installed("nvitop", NVITOP)


def wandb() -> tuple[Path | None, str]:
    """W&B's command, which has `leet`; the same way."""
    return _installed("wandb", WANDB)


def _installed(name: str, version: str) -> tuple[Path | None, str]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fresnel-tui-bench"
    folder = cache / f"{name}-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    program = folder / "bin" / name
    here = Path(sys.executable).with_name(name)
    for found in (program, here):  # on a machine without a network, one may stand beside Python
        if found.exists():
            return found, ""
    write(f"  installing {name} {version} to compare with")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{name}=={version}"]
    for words in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        try:
            ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"open: {name} could not be installed ({type(error).__name__})"
        if ended.returncode:
            program.unlink(missing_ok=True)
            return None, f"open: {name} could not be installed (exit code {ended.returncode})"
    return program, ""


def build_driver(folder: Path) -> dict[str, str] | None:
    """The tests' stand-in NVML, with what nvitop wants besides: variables that lead to it; None
    without compiler.
    """
    sys.path.insert(0, str(REPOSITORY))
    from tests.stubs import nvml

    tool = nvml.compiler()
    if tool is None:
        return None
    folder.mkdir()
    more = folder / "more.c"
    names = [f"nvmlDeviceGet{name}" for name in _MORE.split()]
    names += [
        "nvmlSystemGetCudaDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlSystemGetNVMLVersion",
    ]
    more.write_text(
        "".join(f"__attribute__((weak)) int {name}(void) {{ return 3; }}\n" for name in names)
    )
    sources = [str(nvml.SOURCES / name) for name in ("stub.c", "scenario.c")]
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [tool, "-shared", "-fPIC", "-O1", "-o", str(library), *sources, str(more)], check=True
    )
    scenario = folder / "scenario"
    return nvml.environment(folder, write_scenario(scenario))


def write_scenario(path: Path, pids: Sequence[int] = (), hang: bool = False) -> Path:
    """Eight GPUs: one pid computes on each, its numbers moving with the clock; idle where there is
    none.
    """
    from tests.stubs import nvml

    now, lines = time.time(), []
    for gpu in range(8):
        lines.append(f"gpu {gpu} name NVIDIA A100-SXM4-80GB")
        if gpu >= len(pids):
            continue
        wave = math.sin(now / 5 + gpu)
        lines += [
            f"gpu {gpu} utilization {round(70 + 25 * wave)}",
            f"gpu {gpu} memory_used {round((40 + 8 * wave) * 2**30)}",
            f"gpu {gpu} temperature {round(55 + 10 * wave)}",
            f"gpu {gpu} power {round(280_000 + 60_000 * wave)}",
        ]
    lines += [f"process {gpu} {pid} {40 << 30} compute" for gpu, pid in enumerate(pids[:8])]
    if hang:
        lines.append("gpu 3 power hang")
    return nvml.write_scenario(path, "\n".join(lines) + "\n")
