"""The keys for money, guard and queue are about the machine of the selected run."""

import json
from typing import Any

from textual.widgets import Input, OptionList, Static

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_remote_keys import LOOP, Panel, launch, opened
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.panel.screens.guard_form import GuardScreen
from tui.panel.screens.money import MoneyScreen
from tui.panel.screens.session_form import SessionScreen
from tui.panel.widgets.launch.fields import FormField

THERE = ("--host", "rented")
END = ("--end-command", "true")


def said(line: CommandLine, *words: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(line.run(*words, "--json").stdout)


def shown(panel: Panel, pane: str) -> str:
    return str(panel.app.screen.query_one(pane, Static).content)


async def test_the_money_page_is_that_of_the_selected_run_s_machine(
    line: CommandLine, rented: RentedMachine
) -> None:
    line.run("session", "start", "--rate", "3", "--gpus", "1", "--since", "now")
    run = launch(line, "far", LOOP, "--gpus", "1")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("dollar_sign", MoneyScreen)
        dialog = panel.app.screen.query_one(".dialog")
        assert "of rented" in str(dialog.border_title)
        await panel.until(lambda: "none is open" in shown(panel, "#money-now"))

        await panel.open("s", SessionScreen)
        rate = panel.app.screen.query("FormField Input").first(Input)
        gpus = panel.app.screen.query("FormField Input")[1]
        await panel.until(lambda: getattr(gpus, "value", "") == "2")
        rate.value = "7.5"
        # Since this machine's boot it might have used up its budget already.
        panel.app.screen.query("FormField Input").last(Input).value = "now"
        await panel.open("f2", MoneyScreen)
        await panel.until(lambda: "$7.50/h" in shown(panel, "#money-now"))
        await panel.until(lambda: "far" in shown(panel, "#money-tables"))

        await panel.open("b", LineScreen)
        panel.app.screen.query_one(Input).value = "50"
        await panel.open("enter", MoneyScreen)
        await panel.until(lambda: "of $50" in shown(panel, "#money-now"))
        there, here = said(line, "session", *THERE), said(line, "session")
        assert (there["usd_per_hour"], there["budget_usd"]) == (7.5, 50.0)
        assert (here["usd_per_hour"], here["budget_usd"]) == (3.0, None)

        await panel.open("e", QuestionScreen)
        await panel.open("y", MoneyScreen)
        await panel.until(lambda: "none is open" in shown(panel, "#money-now"))
        assert said(line, "session")["usd_per_hour"] == 3.0, "the one here stays open"

        await panel.open("g", GuardScreen)
        panel.app.screen.query("FormField Input")[1].value = "9000h"  # type: ignore[attr-defined]
        await panel.open("f2", MoneyScreen)
        await panel.until(lambda: "watches age" in shown(panel, "#money-now"))
        await panel.back("escape")
        await panel.open("p", LineScreen)
        await panel.back("enter")
        await panel.until(lambda: "postponed" in said(line, "guard", *THERE)["message"])
        assert said(line, "guard") is None
    assert "fresnel-tui guard postpone 1h --host rented" in panel.app.runs.log.script
    line.run("guard", "off", *THERE)


async def test_the_queue_that_is_drained_is_that_of_the_machine_shown(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "far", LOOP, "--gpus", "0")
    here = line.run("launch", "--gpus", "0", "--name", "near", "--", "true").stdout.strip()
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("D", QuestionScreen)
        await panel.back("y")
        await panel.until(lambda: said(line, "drain", "status", *THERE)["drained"])
        assert not said(line, "drain", "status")["drained"]
        host = panel.app.cockpit.remote.open().links.hosts["rented"]
        await panel.until(lambda: bool(host.snapshot and host.snapshot.drained))

        await panel.until(lambda: here in panel.pane.keys)
        panel.pane.select(here)
        await panel.pilot.press("h")
        gpus = panel.app.cockpit.query_one("#gpus")
        await panel.until(lambda: "rented" in str(gpus.border_title))
        await panel.open("D", QuestionScreen)
        assert "rented" in str(panel.app.screen.query_one(".dialog").border_title)
        await panel.back("y")
        await panel.until(lambda: not said(line, "drain", "status", *THERE)["drained"])


async def test_a_machine_that_is_not_reached_opens_no_page_of_its_own(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "far", LOOP, "--gpus", "0")
    async with opened(rented) as panel:
        await panel.select(run)
        rented.wire.close()
        place = panel.app.cockpit.places.named("rented")
        await panel.until(lambda: "not reached" in place.obstacle)
        for key in ("dollar_sign", "p", "D"):
            panel.app.clear_notifications()
            await panel.pilot.press(key)
            await panel.until(
                lambda: any("not reached" in note.message for note in panel.app._notifications)
            )
            assert panel.app.screen is panel.app.cockpit
        assert panel.app.runs.log.lines == []


async def test_a_session_starts_at_a_price_that_only_its_machine_knows(
    line: CommandLine, rented: RentedMachine
) -> None:
    rented.write(
        ".config/fresnel-tui/prices.yaml",
        "prices: {only-there: {provider: ours, gpu: MI300X, usd_per_hour: '0.7', source: contract, "
        "date: '2026-11-01'}}\n",
    )
    run = launch(line, "far", "true", "--gpus", "0", "--wait")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("dollar_sign", MoneyScreen)
        await panel.open("s", SessionScreen)
        screen = panel.app.screen
        assert isinstance(screen, SessionScreen)
        await panel.until(lambda: "only-there" in [entry.name for entry in screen.prices])
        names = [entry.name for entry in screen.prices]
        screen.query_one(OptionList).highlighted = names.index("only-there")
        await panel.until(lambda: "$1.40/h" in shown(panel, "#session-says"))
        await panel.open("f2", MoneyScreen)
        await panel.until(lambda: said(line, "session", *THERE) is not None)
    assert said(line, "session", *THERE)["usd_per_hour"] == 1.4


async def test_the_guard_s_form_counts_what_is_not_fetched_there_as_its_command_does(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "far", "true", "--gpus", "0", "--wait")
    launch(line, "other", "true", "--gpus", "0", "--wait")
    set_there = line.run("guard", "set", "--max-age", "9000h", "--destroys", *END, *THERE).stderr
    line.run("guard", "off", *THERE)
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("dollar_sign", MoneyScreen)
        await panel.open("g", GuardScreen)
        fields = {field.key: field for field in panel.app.screen.query(FormField)}
        for key, text in (("max_age", "9000h"), ("end_command", "true"), ("destroys", "true")):
            fields[key].put(text)
        await panel.until(lambda: "2 are not" in shown(panel, "#guard-says"))
        (counted,) = [text for text in shown(panel, "#guard-says").splitlines() if "2 are" in text]
    assert counted in set_there
