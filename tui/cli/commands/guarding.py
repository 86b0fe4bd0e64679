"""`guard`."""

from tui.cli.commands.declaring import Actions, argument, examples, flag
from tui.cli.parsing import CommandParser


def guard(parser: CommandParser) -> None:
    """`guard`: set, shown, postponed, lifted."""
    actions = Actions(parser, "status")
    parser.set_defaults(action="guard:run_guard")
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
    flag(parser, "--destroys", "the end command destroys: only when all is fetched")
