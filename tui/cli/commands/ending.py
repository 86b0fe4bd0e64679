"""`stop`, `kill`, `pause`, `continue`, `wait`, `cancel`, `priority`, `extend`, `drain`."""

from tui.cli.commands.declaring import RUN, RUNS, argument, examples, flag, seconds
from tui.cli.parsing import CommandParser


def declare_stop(parser: CommandParser) -> None:
    """`stop`: ask, step by step."""
    _which(parser)
    flag(parser, "--force", "SIGKILL at once: no checkpoint is written")
    flag(parser, "--wait", "return when they have ended")
    examples(parser, "stop last", "stop my-sweep --wait", "stop gpu:3", "stop --all")


def declare_kill(parser: CommandParser) -> None:
    """`kill`: SIGKILL at once, the same as `stop --force`."""
    _which(parser)
    flag(parser, "--wait", "return when they have ended")
    parser.set_defaults(force=True)
    examples(parser, "kill last", "kill --all --wait")


def _which(parser: CommandParser) -> None:
    argument(parser, "runs", "RUN", f"{RUNS}; or words of a filter: gpu:3, tag:bad", nargs="*")
    flag(parser, "--all", "every live run of this host")
    flag(parser, "--yes", "do not ask, where a filter has found the runs")


def declare_pause(parser: CommandParser) -> None:
    """`pause`: SIGSTOP to all of a run."""
    argument(parser, "runs", "RUN", RUNS, nargs="+")
    examples(parser, "pause last", "pause my-sweep")


def declare_continue(parser: CommandParser) -> None:
    """`continue`: SIGCONT to all of a run, whoever paused it."""
    argument(parser, "runs", "RUN", RUNS, nargs="+")
    examples(parser, "continue last", "continue my-sweep")


def declare_wait(parser: CommandParser) -> None:
    """`wait`: until runs have ended."""
    argument(parser, "runs", "RUN", RUNS, nargs="+")
    examples(parser, "wait last && echo it went well", "wait my-sweep")


def declare_cancel(parser: CommandParser) -> None:
    """`cancel`: out of the queue."""
    argument(parser, "runs", "RUN", f"queued: {RUNS}", nargs="*")
    flag(parser, "--all", "every queued run")
    examples(parser, "cancel last", "cancel --all")


def declare_priority(parser: CommandParser) -> None:
    """`priority`: of a queued run."""
    argument(parser, "run", "RUN", f"queued: {RUN}")
    argument(parser, "number", "N", "higher goes first (default 0)", nargs="?", type=int)
    argument(parser, "--by", "N", "so much higher than it is; lower: --by=-N", type=int)
    examples(parser, "priority last 5", "priority last --by=-1", "priority last")


def declare_extend(parser: CommandParser) -> None:
    """`extend`: a longer time limit."""
    argument(parser, "run", "RUN", f"a live Slurm job: {RUN}")
    argument(parser, "time", "TIME", "by so much, e.g. 90m or 2h", type=seconds)
    examples(parser, "extend last 2h")


def declare_drain(parser: CommandParser) -> None:
    """`drain`: hold the queue."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=["on", "off", "status"],
        help="on: nothing new starts; off: the queue goes on; without: show which",
    )
    examples(parser, "drain", "drain on", "drain off")
