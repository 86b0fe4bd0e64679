"""`launch`, `plan`, `verify`, `probe` and `remedy`."""

import argparse

from tui.cli.commands.declaring import (
    RUN,
    argument,
    examples,
    flag,
    overrides,
    port,
    repeated,
    seconds,
    shared,
    ssh_options,
)
from tui.cli.parsing import CommandParser

_NOTES = """\
A command of your own goes after `--`, with all its own flags. It gets one GPU unless
--gpus or --gpu-ids say otherwise, and runs in this folder, with this environment."""

_VERIFY_NOTES = """\
PASS, WARN and FAIL, each with what to do. Imports and torch are tried in the run's own interpreter,
with its environment and its GPUs. Presets add checks of their own (key `checks`), and are checked
before every launch where they say `verify: true`."""


def declare_launch(parser: CommandParser) -> None:
    """`launch`: start runs."""
    _what(parser)
    _how(parser)
    _pushing(parser)
    _sweep(parser)
    flag(parser, "--no-queue", "be denied (exit 4) instead of waiting for GPUs")
    argument(parser, "--hosts", "A,B", "on these rented machines together: all or none")
    argument(
        parser,
        "--early-stop",
        "median[:METRIC]",
        "with a sweep: stop a run whose best is worse than the median of the others so far, "
        "by its loss or METRIC",
    )
    flag(parser, "--no-verify", "skip the checks that the preset asks for")
    _slurm(parser)
    _until(parser)
    examples(
        parser,
        "launch gaussian-fast --set epochs=20 --follow",
        "launch --gpus 2 --name trial -- torchrun --nproc-per-node 2 train.py --lr 3e-4",
        "launch gaussian-fast --set lr=1e-4,3e-4 --set seed=0..2 --parallel 2",
        "launch --set lr=1e-5..1e-3:log --samples 8 -- python train.py --lr {lr}",
        "launch gaussian-fast --set lr=1e-5,1e-4,1e-3,1e-2 --early-stop median",
        "launch gaussian-fast --set lr=1e-5..1e-3:log --samples 20 --sampler tpe --parallel 2",
        "launch --again trial --set lr=1e-4 --after trial",
        "launch --again trial -- --lr 1e-4 --amp",
        "launch --resume last",
        "launch --host amd --follow -- python train.py --lr 1e-4",
        notes=_NOTES,
    )


def declare_up(parser: CommandParser) -> None:
    """`up`: from an address to a running job."""
    argument(
        parser, "address", "ADDRESS", "user@machine[:port], an ssh alias, or a host that was added"
    )
    up_options(parser)
    _what(parser)
    parser.usage = "fresnel-tui up ADDRESS [options] [PRESET | -- COMMAND ARGS…]"
    _how(parser, is_priced=False)
    _pushing(parser)
    _sweep(parser)
    _until(parser)
    parser.set_defaults(stop_hopeless=None, hosts=None)
    examples(
        parser,
        "up root@143.198.0.7 gaussian-fast --price amd-cloud-mi300x --budget 100",
        "up root@143.198.0.7 --follow -- python train.py --lr 1e-4",
        notes="Adds the machine, sets it up, pushes what is needed and launches; says first what "
        "each step will\ndo, and asks once. Again, it does only what has changed. All options of "
        "launch may follow.",
    )


def up_options(parser: argparse._ActionsContainer) -> None:
    """The options that are `up`'s own; all others are those of `launch`."""
    argument(
        parser, "--as", "NAME", "the machine's name here (default: of its address)", dest="as_"
    )
    argument(parser, "--price", "NAME|USD", "of the machine: a name from prices.yaml, or dollars")
    shared(parser, "--budget", "--fingerprint", "--python", "--train")
    ssh_options(parser)


def declare_plan(parser: CommandParser) -> None:
    """`plan`: what launch would run."""
    _what(parser)
    _how(parser)
    _pushing(parser)
    _sweep(parser)
    _slurm(parser)
    flag(parser, "--no-verify", "without the checks that a launch makes where the preset asks")
    flag(parser, "--show-secrets", "with its secrets, on a terminal of this machine only")
    examples(
        parser,
        "plan gaussian-fast --gpus 4 --scale linear",
        "plan --gpus 1 --json -- python train.py",
        notes=_NOTES,
    )


def declare_verify(parser: CommandParser) -> None:
    """`verify`: whether what launch would run can work."""
    _what(parser)
    _how(parser)
    _pushing(parser)
    _sweep(parser)
    repeated(
        parser,
        "--only",
        "CHECKS",
        "only some checks: program, gpus, data, checkpoint, config, memory, batch, disk, network, "
        "machine, outputs, own",
    )
    flag(parser, "--brief", "hide what passes")
    examples(
        parser,
        "verify pcdiff",
        "verify launch-both --brief",
        "verify gaussian-fast --set data_dir=images/training --only data",
        "verify --gpus 2 -- torchrun --nproc_per_node=2 train.py --bs 16",
        notes=_VERIFY_NOTES,
    )


def declare_probe(parser: CommandParser) -> None:
    """`probe`: the largest batch that fits."""
    _what(parser)
    _how(parser)
    parser.usage = "fresnel-tui probe PRESET [options]"
    argument(parser, "--batch", "NAME", "the parameter; by default the preset's own", default="")
    argument(parser, "--first", "N", "start at N instead of the preset's value", type=int)
    argument(parser, "--most", "N", "try nothing larger", type=int)
    argument(parser, "--steps", "N", "steps per trial after the first (10)", type=int, default=10)
    argument(
        parser, "--within", "TIME", "how long one trial may take (10m)", default="10m", type=seconds
    )
    flag(parser, "--keep-runs", "leave the trials in the list of runs")
    # A probe is of one run: no sweep.
    parser.set_defaults(samples=None, sample_seed=0, parallel=None, sampler=None)
    examples(
        parser,
        "probe gaussian-fast",
        "probe pcdiff --gpu-ids 0-3 --most 256",
        "probe mine --batch micro_batch --first 4 --steps 20",
        notes="Doubles the batch until the GPU's memory is not enough, then bisects. Ctrl-C stops\n"
        "the current trial and leaves nothing behind. `verify` and launches use the result.",
    )


def declare_remedy(parser: CommandParser) -> None:
    """`remedy`: an ended run, launched again with what mends it."""
    argument(parser, "run", "RUN", RUN)
    flag(parser, "--list", "show them (what is done anyway)")
    flag(parser, "--all", "show every remedy that is possible")
    repeated(
        parser, "--apply", "REMEDY", "launch with this remedy; several are applied in this order"
    )
    flag(parser, "--dry-run", "with --apply: only show the diff")
    flag(parser, "--wait", "return when the new run has ended")
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
    argument(parser, "preset", "PRESET", "a preset's name, or a YAML file", nargs="?")
    overrides(
        parser,
        "change a parameter or any key of the preset; several values (lr=1e-4,3e-4 seed=0..2) make "
        "a sweep",
    )
    argument(
        parser,
        "--again",
        "RUN",
        "as RUN was launched; --set changes its parameters or the flags of its command, the "
        "other flags the rest; flags after -- replace its own or are added",
    )
    argument(
        parser,
        "--resume",
        "RUN|PATH",
        "continue from a run's newest checkpoint, as it was launched; or with PRESET, from a "
        "run's or a checkpoint file",
    )


def _pushing(parser: CommandParser) -> None:
    """What goes to a rented machine before a command of one's own runs there."""
    group = parser.add_argument_group(
        "commands with --host",
        "This folder is pushed first where the command names a file of it: what git lists, tracked "
        "and not ignored. Waited for, its results are fetched to ./fetched when it has ended, with "
        "what it wrote into the folder there.",
    )
    which = group.add_mutually_exclusive_group()
    flag(which, "--push", "push this folder, whatever the command names")
    flag(which, "--no-push", "run in the folder as it was pushed before")
    repeated(group, "--also", "PATH", "send this too, e.g. data that git ignores")
    flag(group, "--no-fetch", "with --wait or --follow: leave its results there")
    shared(group, "--secrets")
    flag(group, "--yes", "do not ask before much is sent")


def _until(parser: CommandParser) -> None:
    until = parser.add_mutually_exclusive_group()
    flag(until, "--wait", "return when the run has ended")
    flag(
        until, "--follow", "show its output, then a summary; with --json the output goes to stderr"
    )


def _sweep(parser: CommandParser) -> None:
    group = parser.add_argument_group(
        "sweeps",
        "Numbers, yes/no and choices may have several values: a,b,c or FIRST..LAST (whole numbers)"
        " or FIRST..LAST..STEP. In texts and lists a comma is just a comma; {a,b} sweeps these"
        " too. In a command of your own, {lr} is replaced by what --set lr=… says.",
    )
    argument(
        group,
        "--samples",
        "N",
        "N random combinations instead of all; ranges too, as lr=1e-5..1e-3:log",
        type=int,
    )
    argument(group, "--sample-seed", "N", "the same N, the same samples (0)", type=int, default=0)
    argument(
        group,
        "--sampler",
        "NAME[:METRIC]",
        "random (what --samples does), or tpe, gp, cmaes, qmc of the extra `optuna`: each run "
        "gets its values when its turn comes, from the results so far, for the least loss or the "
        "best METRIC (:max or :min where its name does not say)",
    )
    argument(group, "--parallel", "N", "at most N runs of the sweep at once", type=int)


def _how(parser: CommandParser, is_priced: bool = True) -> None:
    which = parser.add_mutually_exclusive_group()
    argument(which, "--gpus", "N", "how many GPUs: a number, 0 for none, or all")
    argument(which, "--gpu-ids", "IDS", "which GPUs, e.g. 0-6,7 or UUIDs")
    parser.add_argument(
        "--scale",
        choices=["linear", "sqrt", "batch"],
        help="keep the preset's batch per GPU on another number of GPUs, and the learning rate "
        "by this rule (batch: leave it)",
    )
    parser.add_argument("--name", default="", help="name of the run")
    if is_priced:
        shared(parser, "--price")
    argument(parser, "--priority", "N", "higher goes first in the queue (default 0)", type=int)
    argument(
        parser,
        "--after",
        "RUN[:success|failure|any]",
        "start when another run has ended (default: success)",
    )
    repeated(
        parser,
        "--env",
        "NAME[=VALUE]",
        "a variable for the program; without a value what it is here, or the secret that is kept",
    )
    parser.add_argument("--placement", default="", help=argparse.SUPPRESS)
    flag(parser, "--tty", "give it a terminal of its own, which `fresnel-tui attach RUN` joins")
    _where(parser)


def _slurm(parser: CommandParser) -> None:
    """The keys of `place.slurm` as flags of the same names; each of them means Slurm too."""
    from runners.host.helpers import lean_msgspec

    with lean_msgspec():
        from runners.presets.declared_keys import declared_keys

    group = parser.add_argument_group(
        "Slurm", "As a job of this machine's Slurm; its node and GPUs are chosen there."
    )
    flag(group, "--slurm", "submit it, with what the preset and settings.yaml say")
    for declared in declared_keys("place.slurm"):
        name = declared.name.rpartition(".")[2]
        if name == "nodes":
            continue  # the flag stands among those of several machines
        option, kept = f"--{name.replace('_', '-')}", f"slurm_{name}"
        if declared.choices:
            group.add_argument(
                option, dest=kept, action="store_const", const="true", help=declared.description
            )
        else:
            argument(group, option, name.upper(), declared.description, dest=kept)


def _where(parser: CommandParser) -> None:
    each = "one of N machines, started by hand on each; with --slurm, all N of them"
    argument(parser, "--nodes", "N", each, type=int)
    argument(parser, "--node-rank", "R", "which of them: 0 to N-1", type=int)
    argument(parser, "--master-addr", "ADDRESS", "where they meet: an address of the machine 0")
    meeting = "and its port (29500; --hosts: a free one)"
    argument(parser, "--master-port", "PORT", meeting, type=port)
    argument(parser, "--node-addresses", "A,B", "all addresses in order, for the program to know")
