"""AMD's own library through the real `amdsmi` package and a stand-in for what it loads, in
processes of their own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.stubs import amd_smi as stub
from tests.support import CEILING_S

pytestmark = pytest.mark.skipif(
    not stub.is_possible(), reason="no C compiler, or no amdsmi to load the stand-in with"
)

ASK = """
import sys, msgspec
from runners.gpus.backends.amd_smi import AmdSmi
smi = AmdSmi()
answers = [smi.fields(word) if ":" in word else smi.partition_fields(word) for word in sys.argv[1:]]
sys.stdout.buffer.write(msgspec.json.encode(answers))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub.build(tmp_path_factory.mktemp("amdsmi"))


def _ask(library: Path, folder: Path, scenario: str, *words: str) -> Any:
    path = folder / "scenario"
    path.write_text(scenario)
    search = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words],
        env=stub.environment(library, path) | {"PYTHONPATH": search, "HOME": str(folder)},
        capture_output=True,
        check=True,
        timeout=CEILING_S,
    )
    return msgspec.json.decode(done.stdout)


def test_every_field_arrives_in_its_unit(library: Path, tmp_path: Path) -> None:
    scene = """
        gpu 0 bus 0x05
        gpu 1 bus 0x85
        gpu 1 gfx 88
        gpu 1 vram_total 196592
        gpu 1 vram_used 1024
        gpu 1 power 410
        gpu 1 clock 2100
        gpu 1 temperature 61
    """
    silent, telling, other = _ask(
        library, tmp_path, scene, "0000:05:00.0", "0000:85:00.0", "0000:99:00.0"
    )
    assert set(silent.values()) == {None} and other == {}
    assert telling == {
        "utilization": 88.0,
        "memory_used": 1 << 30,
        "memory_total": 196592 << 20,
        "power_w": 410.0,
        "clock_mhz": 2100,
        "temperature_c": 61.0,
    }


@pytest.mark.parametrize(
    "function", ["", "gpu 1 function 1"], ids=["card's address", "function is the partition"]
)
def test_a_partition_tells_its_own_use_and_memory(
    library: Path, tmp_path: Path, function: str
) -> None:
    scene = f"""
        gpu 0 bus 0x85
        gpu 0 kfd_id 900
        gpu 0 partition 0
        gpu 0 gfx 50
        gpu 0 busy0 20
        gpu 0 busy1 90
        gpu 1 bus 0x85
        {function}
        gpu 1 kfd_id 901
        gpu 1 partition 1
        gpu 1 vram_total 24576
        gpu 1 vram_used 5
    """
    first, second, unknown = _ask(library, tmp_path, scene, "900", "901", "77")
    assert (first["utilization"], first["memory_used"]) == (20.0, None)
    assert second == {"utilization": 90.0, "memory_used": 5 << 20, "memory_total": 24576 << 20}
    assert unknown == {}


def test_a_library_without_one_of_its_functions_is_no_library(
    library: Path, tmp_path: Path
) -> None:
    short = tmp_path / "libamd_smi.so"
    (tmp_path / "one.c").write_text("int amdsmi_init(void) { return 0; }\n")
    subprocess.run(
        [str(stub.compiler()), "-shared", "-fPIC", "-o", str(short), str(tmp_path / "one.c")],
        check=True,
    )
    assert _ask(tmp_path, tmp_path, "gpu 0 bus 5\n", "0000:05:00.0") == [{}]
