"""AMD cards from a made-up sysfs tree, and amdsmi in its several ways to fail."""

import os
import shutil
import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from runners.gpus.backends.amd import Amd
from runners.gpus.backends.amd_smi import AmdSmi
from runners.gpus.backends.backend import NoDriver
from runners.model.gpus import GpuReading
from runners.model.spec import GpuRequest
from runners.scheduling.allocation import Allocation, allocate
from runners.scheduling.visibility import visibility


def _write(folder: Path, **files: str | int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def _add_card(root: Path, number: int, address: str, **files: str | int) -> Path:
    device = root / "sys/devices/pci0000:00" / address
    _write(device, vendor="0x1002", device="0x74a1", **files)
    card = root / "sys/class/drm" / f"card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    return device


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two cards, the second one silent about most; an integrated card of another maker; a
    connector.
    """
    _add_card(tmp_path, 2, "0000:85:00.0", mem_info_vram_total=206141652992, gpu_busy_percent=250)
    first = _add_card(
        tmp_path,
        1,
        "0000:05:00.0",
        gpu_busy_percent=97,
        mem_busy_percent=41,
        mem_info_vram_total=206141652992,
        mem_info_vram_used=50_000_000_000,
        unique_id="8f3a2c1d00e4b765",
        product_name="AMD Instinct MI300X OAM",
    )
    _write(
        first / "hwmon/hwmon3",
        temp2_input=61000,
        power1_input=532000000,
        power1_cap=750000000,
        freq1_input=2100000000,
        freq2_input=1300000000,
    )
    _write(first / "ras", umc_err_count="ue: 2\nce: 7")
    _write(tmp_path / "sys/class/drm/card0/device", vendor="0x8086")
    _write(tmp_path / "sys/class/drm/card1-DP-1")
    _write(tmp_path / "sys/module/amdgpu", version="6.10.5")
    return tmp_path


def _nothing() -> AmdSmi:
    smi = AmdSmi.__new__(AmdSmi)
    smi._handles, smi._parts = {}, {}
    return smi


def test_cards_are_read_in_the_order_of_their_addresses(root: Path) -> None:
    backend = Amd(root, _nothing)
    first, second = backend.snapshots(0.0)
    assert backend.driver == "6.10.5"
    assert (first.index, first.uuid, first.name) == (
        0,
        "GPU-8f3a2c1d00e4b765",
        "AMD Instinct MI300X OAM",
    )
    assert (first.vendor, first.pci) == ("amd", "0000:05:00.0")
    assert (first.utilization, first.memory_utilization) == (97, 41)
    assert (first.memory_used, first.memory_total) == (50_000_000_000, 206141652992)
    assert (first.temperature_c, first.power_w, first.power_limit_w) == (61, 532, 750)
    assert (first.clock_mhz, first.memory_clock_mhz, first.ecc_errors) == (2100, 1300, 2)
    assert (second.index, second.uuid, second.name) == (1, "PCI-0000:85:00.0", "AMD GPU 0x74a1")


def test_what_a_card_does_not_tell_or_tells_wrongly_is_none(root: Path) -> None:
    second = Amd(root, _nothing).snapshots(0.0)[1]
    assert second.utilization is None
    assert second.memory_used is None
    assert (second.temperature_c, second.power_w, second.clock_mhz, second.ecc_errors) == (
        None,
    ) * 4


def test_sixteen_exabytes_are_no_memory(root: Path) -> None:
    (root / "sys/devices/pci0000:00/0000:05:00.0/mem_info_vram_used").write_text(str(2**64 - 4096))
    assert Amd(root, _nothing).snapshots(0.0)[0].memory_used is None


def test_a_card_that_vanishes_costs_only_its_own_row(root: Path) -> None:
    backend = Amd(root, _nothing)
    (root / "sys/devices/pci0000:00/0000:05:00.0").rename(root / "gone")
    first, second = backend.snapshots(0.0)
    assert first.error is not None and "gone" in first.error and first.utilization is None
    assert second.error is None


def test_no_card_is_no_driver(tmp_path: Path) -> None:
    with pytest.raises(NoDriver, match="amdgpu"):
        Amd(tmp_path)


def test_libdrm_names_a_card_without_a_product_name(root: Path) -> None:
    _write(root / "sys/devices/pci0000:00/0000:85:00.0", revision="0x00")
    _write(
        root / "usr/share/libdrm", **{"amdgpu.ids": "# ids\n1.0.0\n74A1,\t00,\tAMD Instinct MI300X"}
    )
    assert Amd(root, _nothing).snapshots(0.0)[1].name == "AMD Instinct MI300X"


def _add_client(root: Path, pid: int, descriptor: str, client: int, kibibytes: int) -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True, exist_ok=True)
    (folder / "fd" / descriptor).symlink_to("/dev/dri/renderD128")
    usage = f"drm-pdev:\t0000:05:00.0\ndrm-client-id:\t{client}\ndrm-memory-vram:\t{kibibytes} KiB"
    _write(folder / "fdinfo", **{descriptor: usage})


def test_vram_of_processes_counts_each_client_once(root: Path) -> None:
    pid = os.getpid()
    _add_client(root, pid, "7", client=11, kibibytes=1024)
    _add_client(root, pid, "8", client=11, kibibytes=1024)
    _add_client(root, pid, "9", client=12, kibibytes=2048)
    first, second = Amd(root, _nothing).snapshots(0.0)
    (process,) = first.processes
    assert (process.pid, process.memory_used, process.outside) == (pid, 3 << 20, False)
    assert process.command is not None and second.processes == ()


def test_compute_processes_come_from_kfd_where_it_lists_them(root: Path) -> None:
    kfd = root / "sys/class/kfd/kfd"
    _write(kfd / "topology/nodes/0", gpu_id=0, properties="location_id 0\ndomain 0")
    _write(kfd / "topology/nodes/1", gpu_id=51234, properties=f"location_id {0x85 << 8}\ndomain 0")
    _write(kfd / "proc/4194400", vram_51234=7 << 30)
    first, second = Amd(root, _nothing).snapshots(0.0)
    assert first.processes == ()
    (process,) = second.processes
    assert (process.pid, process.memory_used, process.outside) == (4194400, 7 << 30, True)


def _cut(root: Path, old_kernel: bool = False, unique: bool = True) -> None:
    """Cut the second card into four partitions (QPX), which KFD lists before the first card."""
    kfd = root / "sys/class/kfd/kfd"
    _write(kfd / "topology/nodes/0", gpu_id=0, properties="cpu_cores_count 96\nlocation_id 0")
    for part in range(4):
        location = (0x85 << 8) | (part if old_kernel else part << 28)
        facts = {
            "location_id": location,
            "domain": 0,
            "drm_render_minor": 160 + part,
            "simd_count": 304,
        }
        facts |= {"unique_id": 0xD0 + part if unique else 0xD0}
        node = kfd / f"topology/nodes/{part + 1}"
        _write(
            node,
            gpu_id=900 + part,
            properties="\n".join(f"{key} {value}" for key, value in facts.items()),
        )
        _write(node / "mem_banks/0", properties="heap_type 1\nsize_in_bytes 51539607552\nflags 0")
    _write(
        kfd / "topology/nodes/11",
        gpu_id=950,
        properties=f"location_id {0x05 << 8}\ndomain 0\nunique_id 5",
    )
    _write(root / "sys/devices/pci0000:00/0000:85:00.0", current_compute_partition="QPX")
    (kfd / "proc").mkdir()


@pytest.mark.parametrize(
    "old_kernel", [False, True], ids=["location_id[31:28]", "function of location_id"]
)
def test_partitions_are_gpus_of_their_own_numbered_as_hip_does(
    root: Path, old_kernel: bool
) -> None:
    _cut(root, old_kernel)
    _write(
        root / "sys/devices/pci0000:00/0000:85:00.0/hwmon/hwmon4",
        temp2_input=58000,
        power1_average=400000000,
    )
    _write(root / "sys/class/kfd/kfd/proc/4194400", vram_902=7 << 30, vram_950=1 << 30)
    _write(root / "sys/class/kfd/kfd/proc/4194401", vram_902=1 << 30, vram_900=0)
    *parts, whole = Amd(root, _nothing).snapshots(0.0)
    assert [(part.index, part.partition) for part in parts] == [(n, f"QPX {n}/4") for n in range(4)]
    assert [part.uuid for part in parts] == [f"GPU-00000000000000d{n}" for n in range(4)]
    assert {(part.name, part.pci, part.memory_total) for part in parts} == {
        ("AMD GPU 0x74a1 QPX", "0000:85:00.0", 48 << 30)
    }
    assert [part.memory_used for part in parts] == [0, 0, 8 << 30, 0]
    assert [[process.pid for process in part.processes] for part in parts] == [
        [],
        [],
        [4194400, 4194401],
        [],
    ]
    assert {part.temperature_c for part in parts} == {58}, "heat is the card's"
    assert {(part.power_w, part.utilization) for part in parts} == {(None, None)}, (
        "nobody knows it of a part"
    )
    assert (whole.index, whole.partition, whole.utilization) == (4, None, 97)
    assert [process.memory_used for process in whole.processes] == [1 << 30]


def test_partitions_that_share_an_id_are_told_apart_by_their_number(root: Path) -> None:
    _cut(root, unique=False)
    assert [part.uuid for part in Amd(root, _nothing).snapshots(0.0)[:4]] == [
        f"PCI-0000:85:00.0-{n}" for n in range(4)
    ]


def test_a_run_on_a_partition_is_shown_that_device(root: Path) -> None:
    _cut(root)
    reading = GpuReading(0.0, "here", "amd", Amd(root, _nothing).snapshots(0.0))
    given = allocate(GpuRequest(count=2, memory=48 << 30), reading, {})
    assert isinstance(given, Allocation)
    assert visibility(given.gpus, reading) == {"HIP_VISIBLE_DEVICES": "0,1"}


def test_a_render_node_tells_whose_partition_a_process_uses(root: Path) -> None:
    _cut(root)
    _write(root / f"sys/class/kfd/kfd/proc/{os.getpid()}", pasid=1)
    folder = root / "proc" / str(os.getpid())
    (folder / "fd").mkdir(parents=True)
    (folder / "fd/7").symlink_to("/dev/dri/renderD163")
    _write(
        folder / "fdinfo",
        **{"7": "drm-pdev:\t0000:85:00.0\ndrm-client-id:\t1\ndrm-memory-vram:\t2048 KiB"},
    )
    parts = Amd(root, _nothing).snapshots(0.0)[:4]
    assert [[process.memory_used for process in part.processes] for part in parts] == [
        [],
        [],
        [],
        [2 << 20],
    ]


def test_a_card_that_kfd_does_not_know_keeps_the_order_of_addresses(root: Path) -> None:
    _cut(root)
    shutil.rmtree(root / "sys/class/kfd/kfd/topology/nodes/11")
    assert [row.index for row in Amd(root, _nothing).snapshots(0.0)] == [0, 1, 2, 3, 4]
    assert Amd(root, _nothing).snapshots(0.0)[0].partition is None


class _Handle(str):
    pass


def _fake_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("amdsmi")
    module.__dict__.update(
        amdsmi_init=lambda: os.write(1, b"noise on stdout\n"),
        amdsmi_get_processor_handles=lambda: [_Handle("0000:85:00.0")],
        amdsmi_get_gpu_device_bdf=lambda handle: str(handle),
        amdsmi_get_gpu_activity=lambda handle: {"gfx_activity": 88, "umc_activity": "N/A"},
        amdsmi_get_gpu_vram_usage=lambda handle: {"vram_total": 196592, "vram_used": 1024},
        amdsmi_get_power_info=lambda handle: {
            "current_socket_power": "N/A",
            "average_socket_power": 410,
        },
        amdsmi_get_clock_info=lambda handle, kind: {"clk": 2100},
        AmdSmiClkType=SimpleNamespace(GFX=0),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
    )
    monkeypatch.setitem(sys.modules, "amdsmi", module)


def test_amdsmi_fills_the_gaps_and_only_them(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _fake_amdsmi(monkeypatch)
    first, second = Amd(root).snapshots(0.0)
    assert first.utilization == 97
    assert (second.utilization, second.power_w, second.clock_mhz) == (88, 410, 2100)
    assert (second.memory_used, second.memory_total) == (1 << 30, 206141652992)
    assert second.temperature_c is None
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    "error", [KeyError("libamd_smi.so"), AttributeError("amdsmi_x"), ImportError("none")]
)
def test_a_broken_amdsmi_leaves_what_sysfs_tells(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr("runners.gpus.backends.amd_smi.import_module", refuse)
    first, second = Amd(root).snapshots(0.0)
    assert first.utilization == 97
    assert second.power_w is None and second.error is None


def test_heat_fan_links_repairs_and_level_come_from_sysfs(root: Path) -> None:
    device = root / "sys/devices/pci0000:00/0000:05:00.0"
    _write(device / "hwmon/hwmon3", temp3_input=70000, pwm1=128, pwm1_max=255)
    _write(
        device,
        current_link_speed="16.0 GT/s PCIe",
        current_link_width=8,
        max_link_speed="32.0 GT/s PCIe",
        max_link_width=16,
        power_dpm_force_performance_level="auto",
    )
    pages = "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P"
    _write(device / "ras", gpu_vram_bad_pages=pages)
    first, second = Amd(root, _nothing).snapshots(0.0)
    found = first.detail
    assert found is not None and (found.hotspot_c, found.memory_c) == (61, 70)
    assert found.fan_percent == pytest.approx(50, abs=0.5) and found.state == "auto"
    assert (found.pcie_generation, found.pcie_width) == (4, 8)
    assert (found.pcie_most_generation, found.pcie_most_width) == (5, 16)
    assert (found.rows_remapped, found.rows_pending, found.ecc_corrected) == (1, True, 7)
    silent = second.detail
    assert silent is not None and silent.fan_percent is None and silent.rows_remapped is None


def _metrics(version: int, size: int, **fields: tuple[str, int, tuple[int, ...]]) -> bytes:
    content = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", content, 0, size, 1, version)
    for kind, at, values in fields.values():
        struct.pack_into(f"<{kind}", content, at, *values)
    return bytes(content)


def test_throttling_energy_and_traffic_come_from_the_metrics_table(root: Path) -> None:
    device = root / "sys/devices/pci0000:00/0000:05:00.0"
    path = device / "gpu_metrics"

    def written(ppt: int, moved: int) -> None:
        path.write_bytes(
            _metrics(
                6,
                328,
                heat=("HH", 4, (88, 76)),
                energy=("Q", 88, (65536 * 1000,)),
                held=("5I", 108, (0, ppt, 5, 0, 0)),
                pcie=("Q", 160, (8000,)),
                read=("8Q", 200, (moved,) * 8),
                write=("8Q", 264, (0,) * 8),
            )
        )

    backend = Amd(root, _nothing)
    written(10, 1000)
    first = backend.snapshots(0.0)[0]
    assert first.throttle == () and first.energy_j == 1000.0
    written(11, 3000)
    later = backend.snapshots(2.0)[0]
    assert later.throttle == ("power cap",) and later.detail is not None
    assert later.detail.memory_c == 76 and later.detail.pcie_bytes_s == 1e9
    assert later.detail.link == "XGMI" and later.detail.link_bytes_s == 8 * 2000 * 1000 / 2
    path.write_bytes(_metrics(3, 120, bits=("Q", 112, (1 << 36 | 1 << 47,)), no=("H", 8, (0,))))
    other = backend.snapshots(4.0)[0]
    assert other.throttle == ("thermal (hardware)", "hardware slowdown")
    assert other.energy_j is None, "all bits set is not a number"
    for damaged in (b"", b"\x03", _metrics(9, 400), _metrics(6, 328)[:100]):
        path.write_bytes(damaged)
        assert backend.snapshots(6.0)[0].throttle == ()
