"""`launch`, `plan`, `verify`, `probe` and `remedy`."""

from tui.cli.commands.parts import RUN, examples
from tui.cli.parsing import CommandParser

_NOTES = """\
A command of your own goes behind `--`; everything behind it is its own. It gets one GPU unless
--gpus or --gpu-ids say otherwise, and runs in this folder, with this environment."""

_VERIFY_NOTES = """\
PASS, WARN and FAIL, each with what to do. Imports and torch are tried in the run's own interpreter,
with its environment and its GPUs. Presets add checks of their own (key `checks`), and are checked
before every launch where they say `verify: true`."""


def launch(parser: CommandParser) -> None:
    """`launch`: start runs."""
    _what(parser)
    _how(parser)
    _sweep(parser)
    parser.add_argument(
        "--no-queue", action="store_true", help="be denied (exit 4) instead of waiting for GPUs"
    )
    parser.add_argument(
        "--hosts", metavar="A,B", help="on these rented machines together: on all, or on none"
    )
    parser.add_argument(
        "--stop-hopeless",
        metavar="median[:METRIC]",
        help="with a sweep: stop a run whose best is worse than the median of the others so far, "
        "by its loss or METRIC",
    )
    parser.add_argument(
        "--no-verify", action="store_true", help="leave out the checks that the preset asks for"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--wait", action="store_true", help="return when the run has ended")
    until.add_argument(
        "--follow",
        action="store_true",
        help="show its output, then a summary; with --json the output goes to stderr",
    )
    parser.set_defaults(action="launch:run_launch")
    examples(
        parser,
        "launch gaussian-fast --set epochs=20 --follow",
        "launch --gpus 2 --name trial -- torchrun --nproc-per-node 2 train.py --lr 3e-4",
        "launch gaussian-fast --set lr=1e-4,3e-4 --set seed=0..2 --parallel 2",
        "launch --set lr=1e-5..1e-3:log --samples 8 -- python train.py --lr {lr}",
        "launch gaussian-fast --set lr=1e-5,1e-4,1e-3,1e-2 --stop-hopeless median",
        "launch gaussian-fast --set lr=1e-5..1e-3:log --samples 20 --sampler tpe --parallel 2",
        "launch --again trial --set lr=1e-4 --after trial",
        "launch --again trial -- --lr 1e-4 --amp",
        "launch --resume last",
        notes=_NOTES,
    )


def plan(parser: CommandParser) -> None:
    """`plan`: what launch would run."""
    _what(parser)
    _how(parser)
    _sweep(parser)
    parser.set_defaults(action="launch:run_plan")
    examples(
        parser,
        "plan gaussian-fast --gpus 4 --scale linear",
        "plan --gpus 1 --json -- python train.py",
        notes=_NOTES,
    )


def verify(parser: CommandParser) -> None:
    """`verify`: whether what launch would run can work."""
    _what(parser)
    _how(parser)
    _sweep(parser)
    parser.add_argument(
        "--only",
        action="append",
        metavar="CHECKS",
        help="only some checks (repeatable): program, gpus, data, checkpoint, config, memory, "
        "batch, disk, network, machine, outputs, own",
    )
    parser.add_argument("--brief", action="store_true", help="leave out what passes")
    parser.set_defaults(action="verify:run_verify")
    examples(
        parser,
        "verify pcdiff",
        "verify launch-both --brief",
        "verify gaussian-fast --set data_dir=images/training --only data",
        "verify --gpus 2 -- torchrun --nproc_per_node=2 train.py --bs 16",
        notes=_VERIFY_NOTES,
    )


def probe(parser: CommandParser) -> None:
    """`probe`: the largest batch that fits."""
    _what(parser)
    _how(parser)
    parser.usage = "fresnel-tui probe PRESET [options]"
    parser.add_argument(
        "--batch", default="", metavar="NAME", help="the parameter; by default the preset's own"
    )
    parser.add_argument("--first", type=int, metavar="N", help="begin with N, not the preset's")
    parser.add_argument("--most", type=int, metavar="N", help="try nothing larger")
    parser.add_argument(
        "--steps", type=int, default=10, metavar="N", help="steps after the first of each (10)"
    )
    parser.add_argument(
        "--within", default="10m", metavar="TIME", help="how long one trial may take (10m)"
    )
    parser.add_argument(
        "--keep-runs", action="store_true", help="leave the trials in the list of runs"
    )
    # A probe is of one run: no sweep.
    parser.set_defaults(
        action="probe:run_probe", samples=None, sample_seed=0, parallel=None, sampler=None
    )
    examples(
        parser,
        "probe gaussian-fast",
        "probe pcdiff --gpu-ids 0-3 --most 256",
        "probe mine --batch micro_batch --first 4 --steps 20",
        notes="Doubles the batch until the GPU's memory is not enough, then bisects. Ctrl-C stops\n"
        "the trial that goes on and leaves nothing behind. `verify` and launches know the result.",
    )


def remedy(parser: CommandParser) -> None:
    """`remedy`: an ended run, launched again with what mends it."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--list", action="store_true", help="show them (what is done anyway)")
    parser.add_argument("--all", action="store_true", help="show every remedy that is possible")
    parser.add_argument(
        "--apply",
        action="append",
        metavar="REMEDY",
        help="launch with this remedy (repeatable: together, in this order)",
    )
    parser.add_argument("--dry-run", action="store_true", help="with --apply: only the diff")
    parser.add_argument("--wait", action="store_true", help="return when the new run has ended")
    parser.set_defaults(action="remedy:run_remedy")
    examples(
        parser,
        "remedy last",
        "remedy last --apply half-batch",
        "remedy trial --apply half-rate --apply earlier-checkpoint --wait",
        notes="Without --apply, each remedy is shown as a diff of the plan, and nothing runs.",
    )


def _what(parser: CommandParser) -> None:
    name = parser.prog.rpartition(" ")[2]
    parser.usage = (
        f"fresnel-tui {name} [PRESET | --again RUN | --resume RUN] [options] [-- COMMAND ARGS…]"
    )
    parser.add_argument(
        "preset", nargs="?", metavar="PRESET", help="a preset's name, or a YAML file"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a parameter or any key of the preset (repeatable); several values "
        "(lr=1e-4,3e-4 seed=0..2) make a sweep",
    )
    parser.add_argument(
        "--again",
        metavar="RUN",
        help="as RUN was launched; --set changes its parameters or the flags of its command, the "
        "other flags the rest; flags behind -- replace its own or are added",
    )
    parser.add_argument(
        "--resume",
        metavar="RUN|PATH",
        help="go on from a run's newest checkpoint, as it was launched; or with PRESET, from a "
        "run's or a checkpoint file",
    )


def _sweep(parser: CommandParser) -> None:
    group = parser.add_argument_group(
        "sweeps",
        "Numbers, yes/no and choices may have several values: a,b,c or FIRST..LAST (whole numbers)"
        " or FIRST..LAST..STEP. In texts and lists commas stand for themselves; {a,b} sweeps these"
        " too. In a command of your own, {lr} is replaced by what --set lr=… says.",
    )
    group.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="N random combinations instead of all; ranges too, as lr=1e-5..1e-3:log",
    )
    group.add_argument(
        "--sample-seed", type=int, default=0, metavar="N", help="the same N, the same samples (0)"
    )
    group.add_argument(
        "--sampler",
        metavar="NAME[:METRIC]",
        help="random (what --samples does), or tpe, gp, cmaes, qmc of the extra `optuna`: each run "
        "gets its values when its turn comes, from the results so far, for the least loss or the "
        "best METRIC (:max or :min where its name does not tell)",
    )
    group.add_argument(
        "--parallel", type=int, metavar="N", help="at most N runs of the sweep at once"
    )


def _how(parser: CommandParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--gpus", metavar="N", help="how many GPUs: a number, 0 for none, or all")
    which.add_argument("--gpu-ids", metavar="IDS", help="which GPUs, e.g. 0-6,7 or UUIDs")
    parser.add_argument(
        "--scale",
        choices=["linear", "sqrt", "batch"],
        help="keep the preset's batch per GPU on another number of GPUs, and the learning rate "
        "by this rule (batch: leave it)",
    )
    parser.add_argument("--name", default="", help="what to call the run")
    parser.add_argument(
        "--price", metavar="NAME|USD", help="a name from prices.yaml, or dollars per GPU and hour"
    )
    parser.add_argument(
        "--priority", type=int, metavar="N", help="higher goes first in the queue (default 0)"
    )
    parser.add_argument(
        "--after",
        metavar="RUN[:success|failure|any]",
        help="start when another run has ended (default: success)",
    )
    parser.add_argument(
        "--tty",
        action="store_true",
        help="give it a terminal of its own, which `fresnel-tui attach RUN` joins",
    )
    _where(parser)


def _where(parser: CommandParser) -> None:
    parser.add_argument(
        "--nodes", type=int, metavar="N", help="one of N machines, started by hand on each"
    )
    parser.add_argument("--node-rank", type=int, metavar="R", help="which of them: 0 to N-1")
    parser.add_argument(
        "--master-addr", metavar="ADDRESS", help="where they meet: an address of the machine 0"
    )
    parser.add_argument(
        "--master-port", type=int, default=29500, metavar="PORT", help="and its port (29500)"
    )
