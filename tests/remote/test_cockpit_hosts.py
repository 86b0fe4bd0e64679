"""Runs, GPUs, logs and money of a rented machine in the cockpit, beside those of this one."""

import socket
import time
from typing import Any

import msgspec
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from runners.places.ssh.node_groups import NodeGroup, NodeRun, save_group
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.layout import StateDirectory
from tests.command_text import NOT_REACHED_SINCE
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.support import deaf_port, free_port
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.dialogs import LineScreen
from tui.panel.screens.gpu_detail import GpuDetailScreen
from tui.panel.screens.machines import MachinesScreen
from tui.panel.screens.run_detail import RunDetailScreen
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane


async def press(pilot: Pilot[Any], app: PanelApp, key: str, screen: type) -> None:
    """Press a key, and wait for the screen that it opens."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, screen) and app.screen.is_mounted)


async def back(pilot: Pilot[Any], app: PanelApp, *keys: str) -> None:
    """Press keys, and wait until the cockpit is on top again."""
    await pilot.press(*keys)
    await until(pilot, lambda: app.screen is app.cockpit)


async def test_keys_of_the_cockpit_work_on_a_rented_machine(
    line: CommandLine, rented: RentedMachine
) -> None:
    there = line.run(
        *("launch", "--gpus", "1", "--name", "far", "--host", "rented", "--"),
        *("sh", "-c", "while :; do echo loss 0.5; sleep 0.1; done"),
    ).stdout.strip()
    here = line.run("launch", "--gpus", "0", "--name", "near", "--", "echo", "here").stdout.strip()
    key = f"rented/{there}"
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(130, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        pane, gpus = app.cockpit.query_one(RunPane), app.cockpit.query_one(GpuPane)
        await until(pilot, lambda: key in pane.keys and here in pane.keys)

        def shown(run: str) -> str:
            return pane.lines[pane.keys.index(run)].plain if run in pane.keys else ""

        await until(pilot, lambda: " rented " in shown(key) and " here " in shown(here))
        meter = app.cockpit.query_one(MeterBar)
        await until(pilot, lambda: "1 running" in meter.render().plain)  # that there: here none is
        pane.select(key)
        log = app.cockpit.query_one(LogArea).log_pane
        await until(pilot, lambda: "loss 0.5" in str(log.reader.document.tail(5)))

        await pilot.press("h")
        await until(pilot, lambda: "rented" in str(gpus.border_title) and len(gpus.keys) == 2)
        gpus.focus()
        await press(pilot, app, "enter", GpuDetailScreen)
        details = app.screen.query_one("#gpu-detail", Static)

        def drawn() -> str:
            return "\n".join(row.text for row in details.render_lines(details.size.region))

        await until(pilot, lambda: "a far" in drawn())
        assert "0000:05:00.0" in drawn()
        await back(pilot, app, "escape")
        pane.focus()
        await pilot.press("h", "h")
        await until(pilot, lambda: not gpus.machines and "rented" not in str(gpus.border_title))

        await pilot.press("slash", *"host:rented", "enter")
        await until(pilot, lambda: pane.keys == (key,))
        await pilot.press("escape")
        await until(pilot, lambda: here in pane.keys)
        pane.select(key)
        await press(pilot, app, "t", LineScreen)
        await back(pilot, app, *"good", "enter")
        await until(pilot, lambda: pane.lines.live[key].tags == ("good",))
        await press(pilot, app, "enter", RunDetailScreen)
        await back(pilot, app, "escape")
        await press(pilot, app, "s", StopScreen)
        await back(pilot, app, "y")
        await until(pilot, lambda: "stopped" in shown(key))

        rented.wire.close()
        meter = app.cockpit.query_one(MeterBar)
        await until(pilot, lambda: "rented, not reached since" in meter.remote[0])
        assert "stopped" in shown(key)

        gpus.focus()
        await pilot.press("h")
        await until(pilot, lambda: "rented" in str(gpus.border_title))
        RemoteRegistry(line.state).forget("rented")  # the only one: its GPUs are not shown any more
        await until(pilot, lambda: "rented" not in str(gpus.border_title))
    assert f"fresnel-tui stop {there} --host rented" in app.runs.log.script


async def test_machines_that_are_not_reached_at_the_start_hold_up_nothing(
    line: CommandLine,
) -> None:
    """One refuses at once; the other takes the call, and says nothing for as long as one waits."""
    here = line.run("launch", "--gpus", "0", "--name", "near", "--", "echo", "here").stdout.strip()
    registry = RemoteRegistry(line.state)
    with socket.create_server(("127.0.0.1", 0)) as silent, deaf_port() as deaf:
        for name, port in (("gone", deaf), ("silent", silent.getsockname()[1])):
            registry.save(RemoteHost(name, "root@127.0.0.1", port, command="/nowhere/fresnel-tui"))
        app = PanelApp(StateDirectory().create())
        async with app.run_test(size=(130, 30)) as pilot:
            pane = app.cockpit.query_one(RunPane)
            await until(pilot, lambda: here in pane.keys)
            hosts = app.cockpit.remote.open().links.hosts
            assert not (hosts["silent"].is_down or hosts["silent"].is_reached)
            meter = app.cockpit.query_one(MeterBar)
            await until(pilot, lambda: any("gone" in text for text in meter.remote))
            await press(pilot, app, "H", MachinesScreen)
            listed = app.screen.query_one(OptionList)

            def row_of_gone() -> str:
                shown = range(listed.option_count)
                rows = (str(listed.get_option_at_index(i).prompt) for i in shown)
                return next((row for row in rows if "gone" in row), "")

            # It is tried again now and then, and says so meanwhile.
            await until(pilot, lambda: NOT_REACHED_SINCE in row_of_gone())


async def test_a_node_that_holds_up_the_others_is_a_notice(line: CommandLine) -> None:
    """Once for each alert."""
    registry = RemoteRegistry(line.state)
    for name in "ab":
        host = RemoteHost(name, "root@127.0.0.1", free_port(), command="/nowhere/fresnel-tui")
        registry.save(host)
    nodes = (NodeRun("a", ""), NodeRun("b", ""))
    group = NodeGroup("pair", "", time.time(), "127.0.0.1", 29500, nodes)
    save_group(line.state, group)
    # One that only shows: another's watcher writes the alert.
    app = PanelApp(StateDirectory().create(), read_only=True)
    async with app.run_test(size=(130, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        for alert in ("node 1 silent", "node 0 silent"):
            save_group(line.state, msgspec.structs.replace(group, alert=alert))
            await until(
                pilot, lambda alert=alert: [n.message for n in app._notifications].count(alert) == 1
            )
        save_group(line.state, msgspec.structs.replace(group, ended=time.time(), alert="over"))
        await until(pilot, lambda: app.cockpit.remote.hosts._alerts == {})
        assert "over" not in [notice.message for notice in app._notifications]


async def test_a_panel_without_hosts_loads_nothing_of_them(line: CommandLine) -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.cockpit.remote.has_looked)
        assert app.cockpit.remote.hosts is None
        pane = app.cockpit.query_one(RunPane)
        assert "host" not in [cell.column.key for cell in pane.lines.cells]
