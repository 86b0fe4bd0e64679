"""`cost`, `prices`, `session` and `guard`."""

import argparse

from tui.cli.commands.declaring import Actions, argument, examples, flag, shared
from tui.cli.parsing import CommandParser


def declare_cost(parser: CommandParser) -> None:
    """`cost`: shown, planned, exported."""
    actions = Actions(parser, "show")
    # What an action does not have, the code that serves all of them looks for.
    parser.set_defaults(planned=[], budget=None, csv=False)
    actions.add("show", "what is being spent, and on what", ["cost show --json"])
    plan = actions.add(
        "plan",
        "what a list of presets would cost",
        ["cost plan gaussian-validate:1 gaussian-fast:4 --budget 25"],
    )
    argument(plan, "planned", "PRESET:COUNT", "a preset, and how many times to run it", nargs="*")
    argument(plan, "--budget", "USD", "what may be spent")
    export = actions.add(
        "export", "every run of the ledger as CSV", ["cost export > runs.csv", "cost export --json"]
    )
    flag(export, "--csv", "the default, unless --json")
    examples(parser, "cost", "cost plan gaussian-fast:4 --budget 25", "cost export > runs.csv")


def declare_prices(parser: CommandParser) -> None:
    """`prices`: shown, updated."""
    actions = Actions(parser, "list")
    actions.add("list", "every known price, its source and date", ["prices list --json"])
    update = actions.add(
        "update",
        "take in a newer list, checked whole and by its SHA-256",
        ["prices update prices-list.yaml", "prices update https://example.org/prices.yaml"],
    )
    argument(update, "source", "FILE|URL", "the list; its checksum is in SOURCE.sha256 beside it")
    argument(update, "--sha256", "HEX", "the checksum, from where the list is published")
    examples(parser, "prices", "prices update prices-list.yaml --sha256 HEX")


def declare_session(parser: CommandParser) -> None:
    """`session`: started, shown, changed, ended."""
    actions = Actions(parser, "status")
    actions.add("status", "show it (the same as `session` alone)", ["session --json"])
    start = actions.add(
        "start",
        "start counting, from this machine's boot",
        [
            "session start --price amd-cloud-mi300x --budget 100",
            "session start --rate 15.92 --since now",
        ],
    )
    _add_price(start)
    argument(start, "--since", "WHEN", "boot (default), now, or 2026-11-20T14:00", default="boot")
    argument(start, "--budget", "USD", "dollars you mean to spend at most")
    budget = actions.add("budget", "change what may be spent", ["session budget 150"])
    argument(budget, "amount", "USD", "dollars", nargs="?")
    budget.add_argument("--budget", metavar="USD", help=argparse.SUPPRESS)
    price = actions.add(
        "price",
        "correct the price, from the session's start on",
        [
            "session price --rate 1.99",
            "session price --rate 2 --session 20261120-081502-gpu-box",
        ],
    )
    _add_price(price)
    argument(price, "--session", "ID", "an earlier one, which `cost` names (the newest)")
    actions.add("end", "end it, and show the total", ["session end"])
    examples(
        parser, "session start --price amd-cloud-mi300x --budget 100", "session", "session end"
    )


def _add_price(parser: CommandParser) -> None:
    shared(parser, "--price")
    argument(parser, "--rate", "USD", "dollars per hour for the whole machine")
    argument(parser, "--gpus", "N", "how many GPUs (cards) the machine has")
    flag(parser, "--anyway", "accept a price that does not fit this machine")


def declare_guard(parser: CommandParser) -> None:
    """`guard`: set, shown, postponed, lifted."""
    actions = Actions(parser, "status")
    actions.add("status", "show it (the same as `guard` alone)", ["guard --json"])
    _add_set(actions)
    postpone = actions.add("postpone", "hold back for a while", ["guard postpone 1h"])
    argument(postpone, "length", "TIME", "for how long, e.g. 1h; 0 ends a postponement", nargs="?")
    actions.add("off", "lift it", ["guard off"])
    actions.add_hidden("run")
    examples(
        parser,
        "guard set --budget-stop 95% --idle 30m",
        "guard set --max-age 8h --end-command 'sudo poweroff'",
        "guard postpone 1h",
        "guard off",
    )


def _add_set(actions: Actions) -> None:
    parser = actions.add(
        "set",
        "say what it watches and does",
        ["guard set --budget-stop 95% --idle 30m", "guard set --max-age 8h --countdown 5m"],
    )
    argument(parser, "--budget-stop", "USD|PERCENT", "session total, or part of its budget: 95%%")
    argument(parser, "--max-age", "TIME", "age of the session, or of the boot without one")
    argument(parser, "--no-run", "TIME", "no run for so long")
    argument(
        parser,
        "--idle",
        "TIME",
        "GPUs below 5%% for so long (at least 1m) while runs say they train",
    )
    argument(parser, "--warm-up", "TIME", "how long a first epoch may idle (30m)", default="30m")
    argument(parser, "--countdown", "TIME", "between the warning and the stop (10m)", default="10m")
    argument(parser, "--warn-command", "CMD", "run at the warning; FRESNEL_GUARD_TEXT says why")
    argument(parser, "--webhook", "URL", "posted to, as JSON, at every step")
    argument(parser, "--end-command", "CMD", "run once every run has stopped; none by default")
    flag(parser, "--destroys", "the end command deletes the machine: only when all is fetched")
