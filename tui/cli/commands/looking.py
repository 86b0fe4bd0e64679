"""Commands that look: `list`, `status`, `logs`, `metrics`, `diagnose`, `gpus`, others."""

from tui.cli.commands.declaring import RUN, RUNS, argument, examples, flag, seconds, shared
from tui.cli.parsing import CommandParser

_FIND = """\
WORD finds runs as the panel's filter does: text in name, id, tags, note or reason; state:failed,
tag:good, preset:P, name:N, group:G, host:H, user:U, gpu:3, is:live, is:starred, since:7d,
before:1d; loss<0.1 (last value), best:psnr>30, cost>5, age<2h, elapsed>1h, progress<50; settings:
seed=3, set:lr<1e-3. All must match; !WORD negates one."""

_STACKS = """\
Read by py-spy where it is installed and permitted (`pip install 'fresnel-tui[stacks]'`; as root,
or where kernel.yama.ptrace_scope is 0), else by the handler of our own trainers. The kernel's view
of each thread is always shown. Nothing is stopped. Saved in the run's folder, under stacks/."""


def declare_list(parser: CommandParser) -> None:
    """`list`: the runs."""
    argument(parser, "find", "WORD", "only runs that match: see below", nargs="*")
    flag(parser, "--all", "every ended run, not only the newest 100")
    argument(parser, "--limit", "N", "at most this many (default 100)", type=int)
    argument(
        parser,
        "--sort",
        "COLUMNS",
        "by these, e.g. best:loss or state,age-; a trailing - reverses (default: live, newest)",
    )
    argument(parser, "--state", "STATES", "in these states, e.g. failed,lost")
    argument(parser, "--preset", "TEXT", "whose preset's name has this")
    argument(parser, "--name", "TEXT", "whose name has this")
    argument(parser, "--tag", "TAGS", "with one of these tags")
    argument(parser, "--since", "WHEN", "made since 7d, 12h, today, 2026-11-20")
    argument(parser, "--metric", "NAME", "last and best of this metric (default: the run's loss)")
    argument(parser, "--columns", "COLUMNS", "these, e.g. run,state,best:loss,set:lr,note")
    examples(
        parser,
        "list",
        "list --sort best:loss --limit 10",
        "list --state failed --since 7d",
        "list 'loss<0.1' tag:good --columns run,last:loss,best:psnr,age,cost",
        "list --sort preset,elapsed- --all --json",
        notes=_FIND,
    )


def declare_status(parser: CommandParser) -> None:
    """`status`: one run."""
    argument(parser, "run", "RUN", RUNS)
    flag(parser, "--diff", "also show uncommitted code changes")
    flag(parser, "--show-secrets", "also show its secrets, on a terminal of this machine only")
    examples(parser, "status last", "status my-sweep", "status last --diff", "status last --json")


def declare_logs(parser: CommandParser) -> None:
    """`logs`: a run's output."""
    argument(parser, "run", "RUN", RUN)
    which = parser.add_mutually_exclusive_group()
    argument(which, "--rank", "N", "only what this rank wrote", type=int)
    flag(which, "--ranks", "list the ranks: when each wrote last, and what")
    argument(which, "--node", "K", "what node K of its Slurm job wrote (default: 0)", type=int)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    _last_lines(parser)
    examples(
        parser,
        "logs last -f",
        "logs trial -n 50",
        "logs trial -n 50 --json",
        "logs trial --ranks",
        "logs trial --rank 3 -n 50",
    )


def _last_lines(parser: CommandParser) -> None:
    flags = ("-n", "--lines", "--tail")
    parser.add_argument(*flags, type=int, metavar="N", help="only the last N lines")


def declare_metrics(parser: CommandParser) -> None:
    """`metrics`: what a run measured."""
    argument(parser, "run", "RUN", RUN)
    flag(parser, "--csv", "every value: metric,step,epoch,time,value")
    argument(parser, "--name", "REGEX", "only metrics whose name matches")
    argument(parser, "--last", "N", "only the last N values of each", type=int)
    flag(parser, "--watch", "go on until the run has ended")
    examples(parser, "metrics last --watch", "metrics trial --name 'loss$' --csv > loss.csv")


def declare_pictures(parser: CommandParser) -> None:
    """`pictures`: a run's images."""
    argument(parser, "run", "RUN", RUN)
    examples(parser, "pictures last", "pictures trial --json")


def declare_compare(parser: CommandParser) -> None:
    """`compare`: what differs, and which is best."""
    argument(parser, "runs", "RUN", RUNS, nargs="+")
    argument(
        parser,
        "--baseline",
        "RUN",
        "compare the others with this one (default: the newest tagged `baseline`)",
    )
    argument(parser, "--metric", "NAME", "rank by this metric (default: the loss, or the like)")
    flag(parser, "--all", "also the settings that are equal")
    flag(parser, "--code", "how their uncommitted changes differ (two runs)")
    flag(parser, "--csv", "a row for each run")
    examples(
        parser,
        "compare trial-1 trial-2",
        "compare my-sweep --metric val_loss",
        "compare my-sweep --baseline trial-1 --csv > runs.csv",
        "tag trial-1 baseline",
    )


def declare_report(parser: CommandParser) -> None:
    """`report`: one HTML file."""
    argument(parser, "runs", "RUN", RUNS, nargs="+")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: NAME.html in this folder)"
    )
    argument(parser, "--title", "TEXT", "its heading (default: the run's name)")
    argument(parser, "--baseline", "RUN", "compare the others with this run")
    argument(parser, "--metric", "NAME", "rank by this metric (default: the loss)")
    examples(
        parser,
        "report last",
        "report my-sweep -o report.html --title 'Learning rates'",
        notes="The file is self-contained: curves are SVG, pictures are embedded.",
    )


def declare_diagnose(parser: CommandParser) -> None:
    """`diagnose`: why a run ended."""
    argument(parser, "run", "RUN", RUN)
    examples(
        parser,
        "diagnose last",
        "diagnose trial --json",
        notes="Your own signatures: ~/.config/fresnel-tui/signatures.yaml",
    )


def declare_stacks(parser: CommandParser) -> None:
    """`stacks`: where every rank is."""
    argument(parser, "run", "RUN", RUN)
    flag(parser, "--brief", "one line for each rank")
    flag(parser, "--saved", "the newest saved ones; those of an ended run always")
    examples(
        parser, "stacks last", "stacks RUN --brief", "stacks RUN --saved --json", notes=_STACKS
    )


def declare_monitor(parser: CommandParser) -> None:
    """`monitor`: everything at a glance."""
    flag(parser, "--watch", "go on until interrupted")
    argument(parser, "--every", "TIME", "with --watch: so often (5s)", type=seconds, default=5.0)
    parser.add_argument(
        "-n", "--lines", type=int, default=3, metavar="N", help="last lines of each run (default 3)"
    )
    examples(parser, "monitor", "monitor --watch --every 10")


def declare_gpus(parser: CommandParser) -> None:
    """`gpus`: readings and holders."""
    flag(parser, "--watch", "repeat with every new reading; JSON lines with --json")
    argument(
        parser,
        "--host",
        "HOST",
        "the host too; with --json one object around the GPUs. With a name: on that machine",
        nargs="?",
        const=True,
    )
    flag(parser, "--slurm", "those of this machine's Slurm: free, used and down by partition")
    examples(parser, "gpus", "gpus --watch", "gpus --host --json", "gpus --slurm")


def declare_adopt(parser: CommandParser) -> None:
    """`adopt`: jobs of one's own that were submitted by other means."""
    argument(parser, "job", "JOB", "its number, as `adopt` lists it: prints its output", nargs="?")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until it has ended")
    _last_lines(parser)
    flag(parser, "--stop", "cancel it, after a question")
    shared(parser, "--yes")
    examples(parser, "adopt", "adopt 1234 -f", "adopt 1234 --stop", "adopt --host cluster")


def declare_attach(parser: CommandParser) -> None:
    """`attach`: a run's terminal."""
    argument(parser, "run", "RUN", RUN)
    flag(parser, "--take", "take over the keyboard from whoever has it")
    examples(parser, "attach last", "attach trial --take")


def declare_shell(parser: CommandParser) -> None:
    """`shell`: in a run's surroundings."""
    argument(parser, "run", "RUN", RUN)
    argument(parser, "--do", "COMMAND", "run this instead of an interactive shell")
    examples(parser, "shell last", "shell last --do 'python -c \"import torch\"'")
