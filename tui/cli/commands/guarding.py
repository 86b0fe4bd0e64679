"""`guard`."""

from tui.cli.commands.parts import Actions, examples
from tui.cli.parsing import CommandParser


def guard(parser: CommandParser) -> None:
    """`guard`: set, shown, postponed, lifted."""
    actions = Actions(parser, "status")
    parser.set_defaults(action="guard:run_guard")
    actions.add("status", "show it (the same as `guard` alone)", ["guard --json"])
    _add_set(actions)
    postpone = actions.add("postpone", "hold back for a while", ["guard postpone 1h"])
    postpone.add_argument(
        "length", nargs="?", metavar="TIME", help="for how long, e.g. 1h; 0 ends a postponement"
    )
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
    parser.add_argument(
        "--budget-stop", metavar="USD|PERCENT", help="session total, or part of its budget: 95%%"
    )
    parser.add_argument(
        "--max-age", metavar="TIME", help="age of the session, or of the boot without one"
    )
    parser.add_argument("--no-run", metavar="TIME", help="no run for so long")
    parser.add_argument(
        "--idle",
        metavar="TIME",
        help="GPUs below 5%% for so long (at least 1m) while runs say they train",
    )
    parser.add_argument(
        "--warm-up", metavar="TIME", default="30m", help="how long a first epoch may idle (30m)"
    )
    parser.add_argument(
        "--countdown", metavar="TIME", default="10m", help="between the warning and the stop (10m)"
    )
    parser.add_argument(
        "--warn-command", metavar="CMD", help="run at the warning; FRESNEL_GUARD_TEXT says why"
    )
    parser.add_argument("--webhook", metavar="URL", help="posted to, as JSON, at every step")
    parser.add_argument(
        "--end-command", metavar="CMD", help="run once every run has stopped; none by default"
    )
    parser.add_argument(
        "--destroys", action="store_true", help="the end command destroys: only when all is fetched"
    )
