"""`stop`, `kill`, `wait`, `cancel`, `priority` and `drain`."""

from tui.cli.commands.parts import RUN, RUNS, examples
from tui.cli.parsing import CommandParser


def stop(parser: CommandParser) -> None:
    """`stop`: ask, step by step."""
    _which(parser)
    parser.add_argument(
        "--force", action="store_true", help="SIGKILL at once: no checkpoint is written"
    )
    parser.add_argument("--wait", action="store_true", help="return when they have ended")
    parser.set_defaults(action="stop:run_stop")
    examples(parser, "stop last", "stop my-sweep --wait", "stop --all")


def kill(parser: CommandParser) -> None:
    """`kill`: SIGKILL at once, the same as `stop --force`."""
    _which(parser)
    parser.add_argument("--wait", action="store_true", help="return when they have ended")
    parser.set_defaults(action="stop:run_stop", force=True)
    examples(parser, "kill last", "kill --all --wait")


def _which(parser: CommandParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUNS)
    parser.add_argument("--all", action="store_true", help="every live run of this host")


def wait(parser: CommandParser) -> None:
    """`wait`: until a run has ended."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.set_defaults(action="stop:run_wait")
    examples(parser, "wait last && echo it went well")


def cancel(parser: CommandParser) -> None:
    """`cancel`: out of the queue."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"queued: {RUNS}")
    parser.add_argument("--all", action="store_true", help="every queued run")
    parser.set_defaults(action="queue:run_cancel")
    examples(parser, "cancel last", "cancel --all")


def priority(parser: CommandParser) -> None:
    """`priority`: of a queued run."""
    parser.add_argument("run", metavar="RUN", help=f"queued: {RUN}")
    parser.add_argument(
        "number", nargs="?", type=int, metavar="N", help="higher goes first (default 0)"
    )
    parser.set_defaults(action="queue:run_priority")
    examples(parser, "priority last 5", "priority last")


def drain(parser: CommandParser) -> None:
    """`drain`: hold the queue."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=["on", "off", "status"],
        help="on: nothing new starts; off: the queue goes on; without: show which",
    )
    parser.set_defaults(action="stop:run_drain")
    examples(parser, "drain", "drain on", "drain off")
