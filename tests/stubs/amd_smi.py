"""Builds the stand-in for AMD's libamd_smi.so, to be loaded by the real `amdsmi`, whatever version
is installed.

The package binds nearly two hundred functions when it is imported; where what lies in its
structures differs from one version to the next, the stub is told by the package itself.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.stubs.nvml import compiler

SOURCE = Path(__file__).parent / "amd_smi" / "stub.c"
VARIABLE = "AMDSMI_STUB_SCENARIO"

_LAYOUT = """
import amdsmi, amdsmi.amdsmi_wrapper as w
m, p = w.struct_amdsmi_gpu_metrics_t, w.struct_amdsmi_power_info_t
print(f"-DMETRICS_SIZE={w.ctypes.sizeof(m)} -DPARTS_AT={m.xcp_stats.offset}",
      f"-DPART_SIZE={w.ctypes.sizeof(w.struct_amdsmi_gpu_xcp_metrics_t)}",
      f"-DCURRENT_POWER_AT={p.current_socket_power.offset} -DAVERAGE_POWER_AT={p.average_socket_power.offset}",
      f"-DGFX_CLOCK={int(amdsmi.AmdSmiClkType.GFX)} -DHOTSPOT={int(amdsmi.AmdSmiTemperatureType.HOTSPOT)}")
"""


def is_possible() -> bool:
    """True where there is a compiler and the package; asked without importing it."""
    return compiler() is not None and find_spec("amdsmi") is not None


def build(folder: Path) -> Path:
    """Compile libamd_smi.so into `folder`; return the folder, for LD_LIBRARY_PATH."""
    spec = find_spec("amdsmi")
    assert spec is not None and spec.origin is not None
    wrapper = Path(spec.origin).with_name("amdsmi_wrapper.py").read_text("utf-8")
    bound = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    written = set(re.findall(r"^int (amdsmi_\w+)\(", SOURCE.read_text(), re.MULTILINE))
    tool, library = str(compiler()), folder / "libamd_smi.so"
    everything = _nothing_but(folder / "everything.c", bound)
    subprocess.run([tool, "-shared", "-fPIC", "-o", str(library), str(everything)], check=True)
    asked = subprocess.run(
        [sys.executable, "-c", _LAYOUT],
        env=environment(folder, folder),
        capture_output=True,
        text=True,
        check=True,
    )
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", *asked.stdout.split()]
    others = _nothing_but(folder / "others.c", bound - written)
    subprocess.run(
        [tool, "-shared", "-fPIC", *flags, "-o", str(library), str(SOURCE), str(others)], check=True
    )
    return folder


def _nothing_but(path: Path, names: set[str]) -> Path:
    """C functions of these names, none of which is supported."""
    path.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in sorted(names)))
    return path


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """The variables under which a new process finds the stub instead of ROCm's library."""
    return {"LD_LIBRARY_PATH": str(library), VARIABLE: str(scenario), "PATH": os.environ["PATH"]}
