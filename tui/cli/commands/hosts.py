"""`host`, `push` and `fetch`: rented machines."""

from tui.cli.commands.declaring import (
    RUN,
    Actions,
    argument,
    examples,
    flag,
    overrides,
    repeated,
    seconds,
    shared,
    ssh_options,
)
from tui.cli.parsing import CommandParser

_NAME = "its name on this machine"
_SEVERAL = "a,b, @LABEL, all"


def declare_host(parser: CommandParser) -> None:
    """`host`: added, set up, looked at, ended."""
    actions = Actions(parser, "list")
    actions.add("list", "show them (the same as `host` alone)", ["host --json"])
    _add_add(actions)
    _add_create(actions)
    _add_setup(actions)
    for name, summary in (
        ("test", "test the connection, step by step"),
        ("connect", "log in at this terminal once (password, second factor)"),
        ("remove", "forget it and its key; the machine is not touched"),
    ):
        action = actions.add(name, summary, [f"host {name} amd"])
        argument(action, "name", "HOST", _NAME)
        if name == "remove":
            flag(action, "--anyway", "even if it was created from here, and may be billed still")
    _add_labels(actions)
    budget = actions.add(
        "budget",
        "show or set what all machines together may cost from now on; launches on machines are "
        "refused once it is spent",
        ["host budget", "host budget 500", "host budget none"],
    )
    argument(budget, "name", "USD", "US dollars, or `none` to lift it", nargs="?", default="")
    _add_ways(actions)
    end = actions.add(
        "end",
        "show what stops the billing, run the end command, forget it; refused while runs live or "
        "results are not fetched",
        ["host end amd --end-command 'doctl compute droplet delete 1234 --force'"],
    )
    argument(end, "name", "HOST", _NAME)
    argument(end, "--end-command", "CMD", "run here to destroy the machine")
    shared(end, "--yes")
    flag(end, "--anyway", "even if results are not fetched")
    clean = actions.add(
        "clean",
        "show what is left there, and remove it: runs, what was pushed, the panel; for a machine "
        "that goes on without you",
        ["host clean lab", "host clean lab --yes"],
    )
    argument(clean, "name", "HOST", _NAME)
    shared(clean, "--yes")
    flag(clean, "--anyway", "even if runs live there or are not fetched")
    examples(
        parser,
        "host add amd root@143.198.0.7 --price amd-cloud-mi300x",
        "host setup amd --budget 100",
        "push gaussian-fast --host amd --dry-run",
        "launch gaussian-fast --host amd",
        "logs last -f --host amd",
        "fetch last --host amd --to results",
        "host end amd --end-command 'doctl compute droplet delete 1234 --force'",
    )


def _add_add(actions: Actions) -> None:
    parser = actions.add(
        "add",
        "remember a machine; its host key is pinned and shown",
        ["host add amd root@143.198.0.7 --price amd-cloud-mi300x", "host add lab"],
    )
    argument(parser, "name", "NAME", _NAME)
    argument(
        parser,
        "address",
        "ADDRESS",
        "user@machine[:port], or an alias of ~/.ssh/config (default: NAME)",
        nargs="?",
    )
    shared(parser, "--price", "--fingerprint", "--end-command")
    flag(parser, "--replace", "pin the new key of a machine that was rebuilt")
    ssh_options(parser)
    repeated(
        parser, "--label", "LABEL", "a group that it belongs to: --host @LABEL means all of it"
    )


def _add_labels(actions: Actions) -> None:
    for name, summary in (
        ("label", "put machines into groups: `--host @LABEL` means every machine with the label"),
        ("unlabel", "take labels off machines"),
    ):
        parser = actions.add(name, summary, [f"host {name} amd mi300x spot"])
        argument(parser, "name", "HOST", f"{_NAME}; several: {_SEVERAL}")
        argument(parser, "labels", "LABEL", "letters, digits, dots, dashes", nargs="+")


def _add_create(actions: Actions) -> None:
    parser = actions.add(
        "create",
        "rent a machine by a command of yours, wait for it, set it up; again, it goes on where it "
        "was",
        [
            "host create amd --create-command 'doctl compute droplet create amd --wait …' "
            "--address-command 'doctl compute droplet get amd --format PublicIPv4 --no-header' "
            "--end-command 'doctl compute droplet delete amd --force' --price amd-cloud-mi300x",
            "host create amd",
        ],
    )
    argument(parser, "name", "NAME", _NAME)
    argument(parser, "--create-command", "CMD", "run here once: rents the machine")
    argument(parser, "--address-command", "CMD", "run here until it prints its address")
    shared(parser, "--end-command", "--price", "--budget", "--python", "--train", "--yes")
    argument(parser, "--gpus", "N", "how many it has, for its rate until it is reached", type=int)
    argument(parser, "--user", "USER", "who logs in (root)", default="root")
    ssh_options(parser)
    argument(parser, "--within", "TIME", "wait so long for it (20m)", default="20m", type=seconds)
    flag(parser, "--again", "run the create command again, where nothing came of it")


def _add_ways(actions: Actions) -> None:
    shell = actions.add(
        "shell",
        "open a shell there, in the folder where runs start; or run a command",
        ["host shell amd", "host shell amd -- rocm-smi"],
    )
    argument(shell, "name", "HOST", _NAME)
    forward = actions.add(
        "forward",
        "have its ports here, for TensorBoard or Jupyter, until Ctrl+C",
        ["host forward amd 6006", "host forward amd 18888:8888 6006"],
    )
    argument(forward, "name", "HOST", _NAME)
    argument(forward, "ports", "[HERE:]PORT", "a port there, and here if another", nargs="+")
    config = actions.add(
        "ssh-config",
        "print what ~/.ssh/config needs so that editors reach it, its key pinned",
        ["host ssh-config amd >> ~/.ssh/config"],
    )
    argument(config, "name", "HOST", _NAME)


def _add_setup(actions: Actions) -> None:
    parser = actions.add(
        "setup",
        "install the panel there for its user only, and start the session; safe to repeat",
        ["host setup amd --budget 100", "host setup amd --python /opt/venv/bin/python"],
    )
    argument(parser, "name", "HOST", f"{_NAME}; several: {_SEVERAL}")
    shared(parser, "--python", "--budget", "--train")
    argument(parser, "--folder", "PATH", "where runs start there (~/fresnel)")
    argument(
        parser,
        "--torch-index",
        "URL",
        "with --train, where there is no torch: pip's index for its ROCm or CUDA build",
        default="",
    )


def declare_push(parser: CommandParser) -> None:
    """`push`: what a preset needs, taken there."""
    argument(parser, "preset", "PRESET", "a preset's name, or a YAML file")
    argument(parser, "--host", "HOST", f"to which machine; several: {_SEVERAL}", required=True)
    overrides(parser, "change a parameter or key of the preset")
    flag(parser, "--dry-run", "show what would be sent, with sizes, and send nothing")
    repeated(parser, "--exclude", "PATTERN", "leave out")
    repeated(parser, "--also", "PATH", "send this too")
    shared(parser, "--secrets")
    examples(
        parser,
        "push gaussian-fast --host amd --dry-run",
        "push gaussian-fast --host amd --exclude '*.tmp' --also models/dinov2.onnx",
    )


def declare_fetch(parser: CommandParser) -> None:
    """`fetch`: results, brought here."""
    argument(parser, "runs", "RUN", RUN, nargs="*")
    argument(parser, "--host", "HOST", "from which machine", required=True)
    flag(parser, "--all", "every run there not fetched yet")
    argument(parser, "--to", "FOLDER", "the local folder (default: ./fetched)", default="fetched")
    argument(
        parser,
        "--every",
        "TIME",
        "repeat until the runs have ended, e.g. 10m, without this terminal (`fetches` lists them)",
        type=seconds,
    )
    flag(parser, "--wait", "with --every, wait until they have ended")
    parser.add_argument(
        "--checkpoints",
        choices=["best", "all", "none"],
        default="best",
        help="the best and the newest (default), all, or none",
    )
    examples(
        parser,
        "fetch last --host amd --to results",
        "fetch last --host amd --every 10m",
        "fetch --all --host amd",
    )


def declare_fetches(parser: CommandParser) -> None:
    """`fetches`: those that are repeated."""
    actions = Actions(parser, "list")
    actions.add("list", "show them (the same as `fetches` alone)", ["fetches --json"])
    stop = actions.add(
        "stop", "repeat one no more; what was fetched stays", ["fetches stop amd-all"]
    )
    argument(stop, "fetch", "FETCH", "its name, or a run's id")
    examples(parser, "fetches", "fetches stop amd-all", notes="Begun by `fetch --every 10m`.")


def declare_nodes(parser: CommandParser) -> None:
    """`nodes`: one program over several machines."""
    actions = Actions(parser, "list")
    actions.add("list", "show the launches (the same as `nodes` alone)", ["nodes --json"])
    for name, summary in (
        ("status", "show every node"),
        ("stop", "stop every node step by step, the rendezvous node last"),
        ("wait", "wait until all have ended; when one fails, stop the others and report it"),
    ):
        action = actions.add(name, summary, [f"nodes {name} last"])
        argument(action, "group", "LAUNCH", "a launch's name, its preset's, or `last`")
        if name == "stop":
            flag(action, "--force", "SIGKILL at once")
    examples(
        parser,
        "launch pcdiff-8gpu --hosts a,b --scale linear",
        "nodes status last",
        "nodes stop last",
        notes="Started by `launch PRESET --hosts a,b`.",
    )
