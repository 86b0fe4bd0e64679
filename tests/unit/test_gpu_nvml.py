"""NVML through the real pynvml and a stand-in library, each scenario in a process of its own."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from runners.model.gpus import GpuSnapshot
from tests.stubs import nvml as stub
from tests.support import CEILING_S, REPOSITORY, begun
from tests.warm import WarmServer

pytestmark = pytest.mark.skipif(
    stub.compiler() is None, reason="no C compiler to build the stand-in NVML with"
)

READ_ONCE = """
import sys, msgspec
from runners.state.layout import StateDirectory
from runners.gpus.driver_setting import parse
from runners.gpus.backends.detect import open_backend
backend = open_backend(parse(sys.argv[1]), StateDirectory())
gpus = backend.snapshots(0.0)
answer = {"name": backend.name, "gpus": gpus, "problem": backend.problem, "driver": backend.driver}
sys.stdout.buffer.write(msgspec.json.encode(answer))
"""


READ_EACH = """
import os, sys, msgspec
from pathlib import Path
from runners.state.layout import StateDirectory
from runners.gpus.driver_setting import parse
from runners.gpus.backends.detect import open_backend
from tests.stubs.nvml import write_scenario
answers, backend = [], None
for scene in msgspec.json.decode(sys.argv[1]):
    write_scenario(Path(os.environ["NVML_STUB_SCENARIO"]), scene)
    backend = open_backend(parse("nvml"), StateDirectory()) if backend is None or sys.argv[2] == "anew" else backend
    gpus = backend.snapshots(float(len(answers)))
    answers.append({"name": backend.name, "gpus": gpus, "problem": backend.problem, "driver": backend.driver})
sys.stdout.buffer.write(msgspec.json.encode(answers))
"""
ERRORS = [*range(1, 31), 999]
"""Every error that nvml.h documents, but 12: no library answers that there is none."""
ERRORS.remove(12)


class Answer(msgspec.Struct):
    """What one process found."""

    name: str
    gpus: tuple[GpuSnapshot, ...]
    problem: str | None
    driver: str | None


class Driver:
    """A stand-in library, and a warm interpreter that finds it as the driver's."""

    def __init__(self, folder: Path, *defines: str) -> None:
        library = stub.build(folder, *defines)
        self._server = WarmServer(
            *("msgspec", "pynvml", "tests.stubs.nvml", "runners.state.layout"),
            *("runners.gpus.selection", "runners.gpus.backends.detect"),
        )
        # Where libraries are looked for is read when an interpreter starts.
        self._server.inherited = {
            **stub.environment(library, folder / "none"),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)]),
        }
        self._once, self._each = folder / "read_once.py", folder / "read_each.py"
        self._once.write_text(READ_ONCE, encoding="utf-8")
        self._each.write_text(READ_EACH, encoding="utf-8")

    def read(self, folder: Path, scenario: str, choice: str = "nvml") -> Answer:
        """One reading by a process of its own."""
        stub.write_scenario(folder / "scenario", scenario)
        return msgspec.json.decode(self._run(folder, self._once, choice), type=Answer)

    def read_each(self, folder: Path, scenarios: list[str], anew: bool = False) -> list[Answer]:
        """One reading for each scenario by one process, which keeps its driver unless each is to
        begin `anew`.
        """
        words = (msgspec.json.encode(scenarios).decode(), "anew" if anew else "on")
        return msgspec.json.decode(self._run(folder, self._each, *words), type=list[Answer])

    def _run(self, folder: Path, program: Path, *words: str) -> bytes:
        environment = self._server.inherited | {
            "HOME": str(folder),
            stub.VARIABLE: str(folder / "scenario"),
        }
        argv: Sequence[str] = [sys.executable, str(program), *words]
        done = self._server.run(
            argv, env=environment, capture_output=True, check=True, timeout=CEILING_S
        )
        answer: bytes = done.stdout
        return answer


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("nvml"))


def test_every_field_arrives_in_its_unit(driver: Driver, tmp_path: Path) -> None:
    found = driver.read(
        tmp_path,
        f"""
        driver 570.86.15
        gpu 0 name NVIDIA H100 80GB HBM3
        gpu 0 uuid GPU-6d1c
        gpu 0 bus 0xcb
        gpu 0 utilization 98
        gpu 0 memory_utilization 44
        gpu 0 memory_total 85520809984
        gpu 0 memory_used 66571993088
        gpu 0 temperature 71
        gpu 0 power 640250
        gpu 0 power_limit 700000
        gpu 0 clock 1755
        gpu 0 memory_clock 2619
        gpu 0 throttle 0x25
        gpu 0 ecc 3
        process 0 {os.getpid()} 1073741824 compute
        process 0 {os.getpid()} 5 graphics
        process 0 4194400 - graphics
        """,
        choice="auto",
    )
    assert (found.name, found.driver, found.problem) == ("nvml", "570.86.15", None)
    (gpu,) = found.gpus
    assert (gpu.index, gpu.uuid, gpu.name) == (0, "GPU-6d1c", "NVIDIA H100 80GB HBM3")
    assert (gpu.vendor, gpu.pci) == ("nvidia", "0000:cb:00.0")
    assert (gpu.utilization, gpu.memory_utilization) == (98, 44)
    assert (gpu.memory_used, gpu.memory_total) == (66571993088, 85520809984)
    assert (gpu.temperature_c, gpu.power_w, gpu.power_limit_w) == (71, 640.25, 700)
    assert (gpu.clock_mhz, gpu.memory_clock_mhz, gpu.ecc_errors) == (1755, 2619, 3)
    assert gpu.throttle == ("power cap", "thermal (software)")
    ours, other = gpu.processes
    assert (ours.pid, ours.memory_used, ours.outside) == (os.getpid(), 1 << 30, False)
    assert ours.user and ours.command and "python" in ours.command
    assert (other.memory_used, other.outside, other.user) == (None, True, None)


def test_what_is_not_supported_is_none_and_costs_nothing_else(
    driver: Driver, tmp_path: Path
) -> None:
    fields = (
        "utilization",
        "power",
        "power_limit",
        "clock",
        "memory_clock",
        "throttle",
        "ecc",
        "processes",
        "mig",
    )
    lines = [f"gpu 0 {field} error 3" for field in fields]
    (gpu,) = driver.read(tmp_path, "\n".join([*lines, "gpu 0 temperature 44"])).gpus
    assert (gpu.utilization, gpu.memory_utilization) == (None, None)
    assert (gpu.power_w, gpu.power_limit_w, gpu.clock_mhz, gpu.memory_clock_mhz) == (None,) * 4
    assert (gpu.ecc_errors, gpu.throttle, gpu.processes) == (None, (), ())
    assert (gpu.temperature_c, gpu.memory_total, gpu.error) == (44, 80 << 30, None)


def test_old_memory_calls_and_unified_memory(driver: Driver, tmp_path: Path) -> None:
    found = driver.read(
        tmp_path,
        "gpu 0 memory_v2 error 13\ngpu 1 memory_total error 3\ngpu 2 memory_total 0",
    )
    old, unified, empty = found.gpus
    assert (old.memory_used, old.memory_total) == (1 << 30, 80 << 30)
    assert (unified.memory_used, unified.memory_total) == (None, None)
    assert (empty.memory_used, empty.memory_total) == (1 << 30, None)


def test_a_lost_gpu_costs_only_its_own_row(driver: Driver, tmp_path: Path) -> None:
    healthy, lost, hurt = driver.read(
        tmp_path, "gpu 0 clock 1000\ngpu 1 lost\ngpu 2 power error 15"
    ).gpus
    assert (healthy.clock_mhz, healthy.error) == (1000, None)
    assert lost.error is not None and lost.error.startswith("GPU is lost:")
    assert (lost.index, lost.utilization, lost.memory_total) == (1, None, None)
    assert hurt.error is not None and hurt.uuid == "GPU-stub-2" and hurt.temperature_c is None


def test_mig_instances_are_rows_without_utilization(driver: Driver, tmp_path: Path) -> None:
    migs = "mig 0 MIG-aaaa 10737418240 1024\nmig 0 MIG-bbbb 21474836480 2048"
    scene = f"gpu 0 utilization 50\n{migs}\ngpu 1 clock 1"
    parent, first, second, other = driver.read(tmp_path, scene).gpus
    assert parent.utilization is None and parent.mig_parent is None
    assert [row.uuid for row in (first, second)] == ["MIG-aaaa", "MIG-bbbb"]
    assert {row.mig_parent for row in (first, second)} == {parent.uuid}
    assert (first.utilization, first.memory_total, first.memory_used) == (None, 10737418240, 1024)
    assert "MIG" in first.name and first.pci == parent.pci
    assert other.index == 1 and other.utilization == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            18,
            "NVML: driver/library version mismatch: reboot or reload the driver; running jobs "
            "continue",
        ),
        (4, "NVML: no permission"),
        (9, "NVML: the driver is not loaded"),
        (999, "NVML: unknown error"),
        (23, "NVML: "),
    ],
)
@pytest.mark.parametrize("choice", ["nvml", "auto"])
def test_a_driver_that_does_not_start_says_what_to_do(
    driver: Driver, tmp_path: Path, code: int, words: str, choice: str
) -> None:
    if choice == "auto" and list(Path("/sys/class/drm").glob("card*/device/mem_info_vram_total")):
        pytest.skip("this machine has AMD cards, which auto would show")
    found = driver.read(tmp_path, f"init {code}\ngpu 0 clock 1", choice)
    assert found.gpus == ()
    assert found.problem is not None and found.problem.startswith(words)
    assert "\n" not in found.problem


def test_a_driver_that_stops_working_is_a_problem(driver: Driver, tmp_path: Path) -> None:
    found = driver.read(tmp_path, "system 999\ngpu 0 clock 1")
    assert found.gpus == () and found.problem is not None and "unknown error" in found.problem


@pytest.mark.parametrize("choice", ["nvml", "auto"])
def test_a_driver_without_gpus_says_so_and_leaves_room_for_amd(
    driver: Driver, tmp_path: Path, choice: str
) -> None:
    if choice == "auto" and list(Path("/sys/class/drm").glob("card*/device/mem_info_vram_total")):
        pytest.skip("this machine has AMD cards, which auto would show")
    found = driver.read(tmp_path, "driver 570.86.15", choice)
    assert (found.name, found.gpus) == ("none", ())
    assert (
        found.problem is not None
        and "the driver sees no GPU: start the container with its GPUs" in found.problem
    )


def test_gpus_that_all_vanish_are_told(driver: Driver, tmp_path: Path) -> None:
    before, after = driver.read_each(tmp_path, ["gpu 0 clock 1", "driver 570.86.15"])
    assert len(before.gpus) == 1 and before.problem is None
    assert after.gpus == () and after.problem is not None and "sees no GPU" in after.problem


def test_the_mark_of_a_process_names_its_run(driver: Driver, tmp_path: Path) -> None:
    marked = begun(["sleep", "60"], env=os.environ | {"FRESNEL_RUN_ID": "20261121-run"})
    try:
        (gpu,) = driver.read(tmp_path, f"process 0 {marked.pid} 1024").gpus
        assert [process.run for process in gpu.processes] == ["20261121-run"]
    finally:
        marked.kill()
        marked.wait()


@pytest.mark.parametrize("call", ["init", "system"])
def test_whatever_the_driver_fails_with_is_one_line_for_a_person(
    driver: Driver, tmp_path: Path, call: str
) -> None:
    for code, found in zip(
        ERRORS, driver.read_each(tmp_path, [f"{call} {c}" for c in ERRORS], True), strict=True
    ):
        assert found.gpus == (), code
        assert found.problem is not None and "\n" not in found.problem and ": " in found.problem, (
            code
        )


FIELDS = (
    "utilization",
    "memory_total",
    "temperature",
    "power",
    "clock",
    "ecc",
    "processes",
    "mig",
    "events",
)


@pytest.mark.parametrize("field", FIELDS)
def test_whatever_a_field_fails_with_costs_that_field_or_that_gpu(
    driver: Driver, tmp_path: Path, field: str
) -> None:
    scenes = [f"gpu 0 {field} error {code}\ngpu 1 clock 1000" for code in ERRORS]
    for code, found in zip(ERRORS, driver.read_each(tmp_path, scenes), strict=True):
        failing, healthy = found.gpus
        assert found.problem is None and (healthy.clock_mhz, healthy.error) == (1000, None), code
        if code in (15, 16, 28) and field != "events":
            assert failing.error is not None and failing.error.startswith("GPU "), code
        else:
            assert failing.error is None and failing.memory_used == (
                None if field == "memory_total" else 1 << 30
            )


@pytest.mark.parametrize("code", ERRORS)
def test_a_gpu_that_cannot_be_opened_keeps_a_row(driver: Driver, tmp_path: Path, code: int) -> None:
    lost, healthy = driver.read(
        tmp_path, f"gpu 0 name error {code}\ngpu 0 uuid error {code}\ngpu 1 clock 7"
    ).gpus
    assert (lost.index, healthy.clock_mhz) == (0, 7)
    assert lost.error is not None if code in (15, 16, 28) else lost.name == "unknown GPU"


@pytest.mark.parametrize("defines", [(), ("R535",), ("R470",)], ids=["CUDA 13", "R535", "R470"])
def test_processes_are_read_whatever_the_layout_of_a_line(
    tmp_path: Path, defines: tuple[str, ...]
) -> None:
    held = {4194400 + n: (n + 1) << 28 for n in range(9)}
    lines = [
        f"process 0 {pid} {used} {'graphics' if pid % 3 == 0 else 'compute'}"
        for pid, used in held.items()
    ]
    (gpu,) = Driver(tmp_path, *defines).read(tmp_path, "\n".join(lines)).gpus
    assert {process.pid: process.memory_used for process in gpu.processes} == held


def test_processes_come_and_go(driver: Driver, tmp_path: Path) -> None:
    scenes = [
        "gpu 0 clock 1",
        "process 0 4194400 5",
        "process 0 4194400 7\nprocess 0 4194401 -",
        "process 0 4194401 9",
    ]
    found = [answer.gpus[0].processes for answer in driver.read_each(tmp_path, scenes)]
    assert [[(process.pid, process.memory_used) for process in one] for one in found] == [
        [],
        [(4194400, 5)],
        [(4194400, 7), (4194401, None)],
        [(4194401, 9)],
    ]


def test_eight_gpus_one_of_which_falls_off_the_bus_and_comes_back(
    driver: Driver, tmp_path: Path
) -> None:
    eight = "\n".join(f"gpu {n} utilization {n * 10}" for n in range(8))
    before, gone, back = driver.read_each(tmp_path, [eight, eight + "\ngpu 3 lost", eight])
    assert (
        [gpu.utilization for gpu in before.gpus]
        == [gpu.utilization for gpu in back.gpus]
        == [*range(0, 80, 10)]
    )
    assert [gpu.error is None for gpu in gone.gpus] == [n != 3 for n in range(8)]
    assert [gpu.uuid for gpu in gone.gpus] == [f"GPU-stub-{n}" for n in range(8)]


def test_an_xid_is_told_with_its_time_and_what_it_means(driver: Driver, tmp_path: Path) -> None:
    base = "gpu 0 clock 1\ngpu 1 clock 1\nxid 1 0 48\n"
    more = base + "xid 2 1 79\nxid 3 1 154\n"
    scenes = [base, base, more, more, more + "xid 4 1 31\nxid 5 0 9999\n"]
    found = [[gpu.xid for gpu in answer.gpus] for answer in driver.read_each(tmp_path, scenes)]
    assert found[0] == found[1] == [None, None], "what happened before nobody told us"
    for healthy, hurt in found[2:4]:
        assert healthy is None and hurt is not None
        assert (hurt.code, hurt.time) == (79, 2.0), "the cause, not what followed from it"
        assert hurt.meaning.startswith("fell off the bus")
    assert [xid and (xid.code, xid.time) for xid in found[4]] == [(9999, 4.0), (31, 4.0)]
    assert found[4][0] is not None and "catalogue" in found[4][0].meaning


def test_an_xid_of_a_gpu_that_is_lost_stands_beside_the_loss(
    driver: Driver, tmp_path: Path
) -> None:
    (gpu,) = driver.read_each(tmp_path, ["gpu 0 clock 1", "gpu 0 lost\nxid 1 0 79"])[1].gpus
    assert gpu.error is not None and gpu.xid is not None and gpu.xid.code == 79


def test_what_is_told_seldom_is_read_of_one_gpu_at_each_reading(
    driver: Driver, tmp_path: Path
) -> None:
    known = """
        gpu 0 fan 35
        gpu 0 state 0
        gpu 0 compute_mode 3
        gpu 0 energy 7200000
        gpu 0 remapped 103
        gpu 0 pcie_generation 4
        gpu 0 pcie_width 16
        gpu 0 pcie_traffic 2500
        gpu 0 memory_heat 84
        gpu 0 process_use 40
        process 0 4242 1073741824 compute
        gpu 1 state 8
        """
    first, second = driver.read_each(tmp_path, [known, known])
    gpu, other = first.gpus
    assert gpu.energy_j == 7200.0 and gpu.detail is not None and other.detail is None
    found = gpu.detail
    assert (found.fan_percent, found.state, found.memory_c) == (35, "P0", 84)
    assert (found.pcie_generation, found.pcie_width, found.pcie_most_generation) == (4, 16, 5)
    assert found.pcie_bytes_s == 5_000_000, "both directions, which NVML tells in KB/s"
    assert (found.rows_remapped, found.rows_pending, found.rows_failed) == (3, True, False)
    assert found.compute_mode == "exclusive process" and found.link is None
    assert [one.utilization for one in gpu.processes] == [40]
    later = second.gpus[1].detail
    assert later is not None and later.state == "P8", "its turn has come"
    assert later.fan_percent is None and later.rows_remapped is None and later.pcie_width is None
    assert second.gpus[1].energy_j is None
