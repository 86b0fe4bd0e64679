"""What opens above the cockpit, by name; each screen is imported when it is first opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from tui.panel.screens.cockpit_base import Cockpit
from tui.panel.widgets.runs import RunPane

_MOST_CURVES = 32


def open_stacks(screen: Cockpit) -> None:
    """Show where every rank is instead of the output, and back."""
    from tui.panel.stack_log import show_stacks

    run = screen.selected_run
    if run is None:
        screen.notify("no run is selected", timeout=3)
        return
    tell = partial(screen.notify, timeout=8, markup=False)
    screen.run_worker(show_stacks(screen.area, screen.state, run, tell), group="stacks")


def copy_command(screen: Cockpit) -> None:
    """Hand the selected run's command to the terminal's clipboard."""
    from tui.panel.terminal.osc import describe_copied, osc52, send
    from tui.views.runs.run_text import command_of

    view = screen.query_one(RunPane).selected
    if view is None or view.run.plan is None:
        screen.notify("no run is selected" if view is None else "its plan is lost", timeout=3)
        return
    command = command_of(view.run.plan)
    send(screen.app, osc52(command.encode(), os.environ))
    screen.notify(describe_copied(command, os.environ), timeout=6, markup=False)


def open_money(screen: Cockpit) -> None:
    """What everything costs; session and guard."""
    from tui.panel.screens.money import MoneyScreen

    screen.app.push_screen(
        MoneyScreen(screen.state, screen.money, screen.snapshot, screen.read_only)
    )


def open_metrics(screen: Cockpit) -> None:
    """The curves of the marked runs, else of the selected one, on a page of their own."""
    from tui.panel.screens.metrics import MetricsScreen

    marked = screen.chosen_views(_MOST_CURVES)
    screen.app.push_screen(MetricsScreen(screen.state, screen.snapshot, marked))


def open_pictures(screen: Cockpit) -> None:
    """The pictures of the selected run, or of two marked ones, on a page of their own."""
    from tui.views.metrics.picture_file import MISSING, has_pillow

    views = screen.chosen_views(2)
    if not views or screen.snapshot is None:
        screen.notify("no run is selected", timeout=3)
    elif not has_pillow():
        screen.notify(MISSING, timeout=8, markup=False)
    else:
        from tui.panel.screens.pictures import PicturesScreen

        screen.app.push_screen(PicturesScreen(screen.snapshot, views))


def open_hosts(screen: Cockpit) -> None:
    """Every rented machine on a screen of its own."""
    from tui.panel.screens.hosts import HostsScreen

    screen.app.push_screen(
        HostsScreen(screen.state, screen.snapshot, screen.remote.open(), screen.read_only)
    )


def open_compare_page(screen: Cockpit) -> None:
    """What differs between the marked runs, or those of the group, and which is best."""
    from tui.panel.screens.compare import open_compare

    ids = [row.id for row in screen.query_one(RunPane).chosen]
    if not open_compare(screen.app, screen.state, ids):
        screen.notify("mark the runs to compare with Space, two at least", timeout=4)


def open_commands(screen: Cockpit) -> None:
    """Show what was done here, as commands."""
    from tui.panel.screens.commands import CommandScreen

    screen.app.push_screen(CommandScreen(screen.commands.log))


OF_RUNS = frozenset({"stacks", "copy_command", "metrics", "pictures", "compare"})
"""Those that show the chosen runs."""

PAGES: dict[str, Callable[[Cockpit], None]] = {
    "stacks": open_stacks,
    "copy_command": copy_command,
    "money": open_money,
    "metrics": open_metrics,
    "pictures": open_pictures,
    "hosts": open_hosts,
    "compare": open_compare_page,
    "commands": open_commands,
}
