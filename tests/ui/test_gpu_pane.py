"""The GPU pane in a real terminal: every GPU of a stand-in driver, one of them in full, and
drivers in trouble.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runners.gpus.backends.nvml_events import xid_meaning
from runners.model.gpus import HostSnapshot
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.screen_text import (
    ARE_YOU_SURE,
    EVERYTHING_ELSE_GOES_ON,
    FREE,
    IN_USE,
    LAST_XID,
    NO_COMPUTE,
    NO_GPU,
    NOT_FREE,
    NOT_PUT_HERE,
    ON_THE_CPU,
    STRANGER,
    assigned,
    field,
    gpu_row,
    gpu_title,
    run_row,
    stop_dialog,
)
from tests.stubs import nvml as stub
from tests.terminal import CEILING_S, headless
from tests.ui.conftest import Show
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.cockpit.screen import NO_HOLDER, CockpitScreen
from tui.panel.screens.gpu_detail import GpuDetailScreen, course
from tui.panel.widgets.gpu.pane import GpuPane, _host_rows

OUTPUT = "it goes on"
SCENE = """\
driver 570.86.15
gpu 0 uuid GPU-whole
gpu 0 utilization 98
gpu 0 clock 1755
gpu 0 throttle 0x44
gpu 0 ecc 3
gpu 1 uuid GPU-cut
mig 1 MIG-aaaa 10737418240 1024
mig 1 MIG-bbbb 10737418240 2048
"""


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return stub.install(monkeypatch, tmp_path, SCENE)


@pytest.mark.parametrize("load", [0.07, 15.93, 180.2])
def test_a_machine_without_gpus_is_said_whole_on_the_narrowest_pane(load: float) -> None:
    """Also one of 128 busy processors: 30 cells are what 80 columns leave."""
    host = HostSnapshot(100.0, 128, load, 900 * 2**30, 1000 * 2**30, 76 * 10**9, 10**12)
    rows = _host_rows(host, 30)
    assert max(row.cell_len for row in rows) <= 30, [row.plain for row in rows]


async def test_its_page_takes_more_of_a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ten minutes are finer, commands have more room; and less, once it is narrower."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and bool(app.snapshot.gpus))
        await pilot.press("1", "enter")
        await until(pilot, lambda: isinstance(app.screen, GpuDetailScreen))
        await until(pilot, lambda: app.screen.query_one(".dialog").size.width > 110)
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: app.screen.query_one(".dialog").size.width < 75)


async def test_what_is_said_of_the_host_fits_the_width_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: app.screen.query(GpuPane).first().border_subtitle is not None)
        pane = app.screen.query(GpuPane).first()
        wide = str(pane.border_subtitle)
        # Nothing new comes: on a busy machine the same figures may stand for long.
        monkeypatch.setattr(CockpitScreen, "show", lambda *_: None)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: str(pane.border_subtitle) != wide)
        assert len(str(pane.border_subtitle)) < pane.outer_size.width


def test_a_process_of_ones_own_is_ended_when_it_was_said_twice(scene: Path, show: Show) -> None:
    stranger = subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"]})
    try:
        stub.write_scenario(scene, SCENE + f"process 0 {stranger.pid} 19327352832 compute\n")
        panel = show()
        panel.wait_for(gpu_row(0, "98%"))
        panel.press("1", "K")
        panel.wait_for(rf"pid {stranger.pid} +sleep 300")
        panel.press("n")
        panel.wait_gone(r"\(y\)")
        panel.press("K")
        panel.wait_for(r"\(y\)")
        panel.press("y")
        panel.wait_for(ARE_YOU_SURE)
        assert stranger.poll() is None
        panel.press("y")
        assert stranger.wait(CEILING_S) == -signal.SIGTERM
    finally:
        stranger.kill()
        stranger.wait()


def test_a_long_command_on_a_gpu_goes_on_below_itself(scene: Path, show: Show) -> None:
    words = [f"word-{number}" for number in range(20)]
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(300)", *words],
        env={"PATH": os.environ["PATH"]},
    )
    try:
        stub.write_scenario(scene, SCENE + f"process 0 {stranger.pid} 19327352832 compute\n")
        panel = show()
        panel.wait_for(gpu_row(0, "98%"))
        panel.press("1", "Enter")
        panel.wait_for(gpu_title("0", "NVIDIA Stub GPU"))
        panel.press("\x1b[F")
        panel.wait_for(words[-1])
        lines = [line for line in panel.text.splitlines() if "word-" in line]
        assert len(lines) > 2 and all("│     word-" in line for line in lines[1:]), lines
    finally:
        stranger.kill()
        stranger.wait()


def test_trouble_instances_and_one_gpu_in_full_by_keys_alone(scene: Path, show: Show) -> None:
    stranger = subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"]})
    try:
        stub.write_scenario(scene, SCENE + f"process 0 {stranger.pid} 19327352832 compute\n")
        assert headless("launch", "--gpu-ids", "MIG-bbbb", "--", "sleep", "300").returncode == 0
        panel = show()
        panel.wait_for(gpu_row(0, r"98%.*▼cap"))
        panel.wait_for(gpu_row(1, r"2 MIG"))
        panel.wait_for(gpu_row(0, FREE, is_instance=True))
        panel.wait_for(gpu_row(1, "A:0", is_instance=True))
        panel.press("1", "Enter")
        panel.wait_for(gpu_title("0", "NVIDIA Stub GPU"))
        panel.wait_for(r"▼cap ▼heat ⚠ECC 3")
        panel.wait_for(field("use", r"98% .*█ last 10 min"))
        panel.wait_for(field("clocks", r"1755 MHz, memory 2619 MHz"))
        panel.wait_for(field("throttling", r"power cap, thermal \(hardware\)"))
        panel.press("\x1b[F")  # End: 80×24 does not hold it all
        panel.wait_for(rf"{STRANGER} +{stranger.pid} \w+ +\w+ +18\.0G(.*\n){{1}}.*  sleep 300")
        panel.press("Escape")
        panel.wait_gone(STRANGER)
        panel.press("G", "Enter")
        panel.wait_for(gpu_title("1 MIG 1", "NVIDIA Stub GPU MIG"))
        panel.wait_for(field("A sleep", assigned(1, 0)))
        panel.press("n")
        panel.wait_for(gpu_title("0", "NVIDIA Stub GPU"))
        panel.press("p", "p")
        panel.wait_for(gpu_title("1 MIG 0", "NVIDIA Stub GPU MIG"))
    finally:
        stranger.kill()
        stranger.wait()


def test_free_means_that_a_launch_would_take_it(scene: Path, show: Show) -> None:
    stub.write_scenario(
        scene,
        "gpu 0 compute_mode 2\ngpu 1 memory_used 9663676416\ngpu 2 memory_used 1048576\n",
    )
    panel = show(columns=120, rows=30)
    panel.wait_for(gpu_row(0, NOT_FREE))
    panel.wait_for(gpu_row(1, NOT_FREE))
    panel.wait_for(gpu_row(2, f"W +{FREE}"))
    panel.press("1", "Enter")
    panel.wait_for(field("launch", f"⚠ {NOT_PUT_HERE}: {NO_COMPUTE}"))
    panel.press("n")
    panel.wait_for(field("launch", rf"⚠ {NOT_PUT_HERE}: has 9\.0 GiB {IN_USE}"))
    denied = headless("launch", "--gpus", "2", "--no-queue", "--", "true")
    assert denied.returncode == 4 and "1 of 3 free" in denied.stderr, denied.stderr
    assert f"not free: {NO_COMPUTE}" in headless("gpus").stdout


def test_s_at_a_gpu_is_about_the_run_that_holds_it(show: Show) -> None:
    def launch(name: str, gpu: str) -> str:
        words = ("launch", "--name", name, "--gpu-ids", gpu, "--", "sleep", "300")
        return headless(*words, FRESNEL_GPUS="sim:3xH100").stdout.strip()

    held, other = launch("held", "1"), launch("other", "0")
    panel = show(columns=120, rows=30, FRESNEL_GPUS="sim:3xH100")
    panel.wait_for(gpu_row(1, r"[AB]:0 held"))
    panel.press("1", "G", "s")
    panel.wait_for(NO_HOLDER)
    panel.press("k", "s")
    panel.wait_for(stop_dialog("held"))
    panel.press("y")
    assert json.loads(headless("wait", held, "--json").stdout)["state"] == State.STOPPED
    assert json.loads(headless("status", other, "--json").stdout)["state"] == State.RUNNING
    headless("kill", other)


def test_an_xid_stands_in_the_row_and_in_full_in_the_details(scene: Path, show: Show) -> None:
    stub.write_scenario(scene, "gpu 0 uuid GPU-whole\n")
    assert headless("launch", "--gpu-ids", "0", "--", "sleep", "300").returncode == 0
    panel = show()
    panel.wait_for(gpu_row(0, r"A:0"))
    stub.write_scenario(scene, "gpu 0 uuid GPU-whole\nxid 1 0 119\n")
    panel.wait_for(gpu_row(0, r"A:0 ⚠X119 *│"))
    panel.press("1", "Enter")
    panel.wait_for(rf"{LAST_XID} +119 on .*: {xid_meaning(119).partition(' (')[0]}")
    panel.press("Escape")
    panel.wait_gone(LAST_XID)
    panel.press("z")
    panel.wait_for(gpu_row(0, r"A:0 ⚠Xid 119: the"))


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("init 18\n", "driver/library version mismatch: reboot or reload the driver"),
        ("init 4\n", "no permission: check access to /dev/nvidia*"),
        ("init 9\n", "the driver is not loaded: load the nvidia module or reboot"),
        ("init 999\n", "unknown error: in a container, restart it"),
        ("system 18\n", "driver/library version mismatch: reboot or reload the driver"),
        ("driver 570.1\n", "the driver sees no GPU: start the container with its GPUs"),
        (None, "libnvidia-ml.so.1 is not found: install the NVIDIA driver"),
    ],
    ids=[
        "mismatch",
        "permission",
        "not loaded",
        "unknown",
        "mismatch later",
        "zero GPUs",
        "no driver",
    ],
)
def test_a_driver_in_trouble_says_what_to_do_and_everything_else_goes_on(
    scene: Path, show: Show, monkeypatch: pytest.MonkeyPatch, scenario: str | None, words: str
) -> None:
    if scenario is None:
        monkeypatch.setenv("LD_LIBRARY_PATH", "")
        if headless("gpus").stdout:
            pytest.skip("this machine has an NVIDIA driver")
    stub.write_scenario(scene, scenario or "")
    panel = show()
    panel.wait_for(NO_GPU)
    pane = panel.wait_for(rf"(?s){NO_GPU}.*CPU    ")
    said = " ".join(re.findall(r"(?m)^│ ?(.*?) *│", pane.string))
    assert all(word in said for word in words.split()), pane.string
    started = headless(
        "launch", "--gpus", "0", "--name", "onward", "--", "sh", "-c", f"echo {OUTPUT}; sleep 300"
    )
    assert started.returncode == 0, started.stderr
    panel.wait_for(run_row(State.RUNNING, "onward"))
    panel.wait_for(OUTPUT)
    panel.press("1", "Enter")
    panel.wait_for(EVERYTHING_ELSE_GOES_ON)
    panel.press("Escape")
    panel.wait_gone(ON_THE_CPU)
    panel.press("s")
    panel.wait_for(stop_dialog("onward"))
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "onward"))


def test_a_course_is_scaled_to_what_is_possible_and_gaps_stay_gaps() -> None:
    samples = [(1000.0 + second, 50.0) for second in range(300)] + [(1400.0, 100.0), (1599.0, None)]
    assert course(samples, 1600.0, 100, 10) == "▅▅▅▅▅·█···"
    assert course([], 1600.0, 100, 4) == "····"
    assert course(samples, 1600.0, None, 4) == "····"
