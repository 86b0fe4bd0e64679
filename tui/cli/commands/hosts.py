"""`host`, `push` and `fetch`: rented machines."""

from tui.cli.commands.parts import RUN, Actions, examples
from tui.cli.parsing import CommandParser

_NAME = "what it is called here"


def host(parser: CommandParser) -> None:
    """`host`: added, set up, looked at, ended."""
    actions = Actions(parser, "list")
    parser.set_defaults(action="host:run_host")
    actions.add("list", "show them (the same as `host` alone)", ["host --json"])
    _add_add(actions)
    _add_setup(actions)
    for name, summary in (
        ("test", "look at the way there, step by step"),
        ("connect", "log in here, with a password or a second factor, for all that follows"),
        ("remove", "forget it and its key; over there nothing is touched"),
    ):
        action = actions.add(name, summary, [f"host {name} amd"])
        action.add_argument("name", metavar="HOST", help=_NAME)
    end = actions.add(
        "end",
        "say what ends the bill, run what destroys it, and forget it; refused while runs live or "
        "results are not fetched",
        ["host end amd --end-command 'doctl compute droplet delete 1234 --force'"],
    )
    end.add_argument("name", metavar="HOST", help=_NAME)
    end.add_argument("--end-command", metavar="CMD", help="run here to destroy the machine")
    end.add_argument("--yes", action="store_true", help="do not ask")
    end.add_argument("--anyway", action="store_true", help="although something is not fetched")
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
    parser.add_argument("name", metavar="NAME", help=_NAME)
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help="user@machine[:port], or an alias of ~/.ssh/config (default: NAME)",
    )
    parser.add_argument(
        "--price", metavar="NAME|USD", help="a name from prices.yaml, or dollars per GPU and hour"
    )
    parser.add_argument(
        "--fingerprint", metavar="SHA256:…", help="what the provider shows: refuse any other key"
    )
    parser.add_argument(
        "--replace", action="store_true", help="pin the key of a machine that was made anew"
    )
    parser.add_argument(
        "--end-command", metavar="CMD", help="what `host end` runs here to destroy the machine"
    )
    parser.add_argument(
        "--ssh-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of ssh_config for this machine (repeatable)",
    )


def _add_setup(actions: Actions) -> None:
    parser = actions.add(
        "setup",
        "install the panel there for its user alone, and start the session; safe to repeat",
        ["host setup amd --budget 100", "host setup amd --python /opt/venv/bin/python"],
    )
    parser.add_argument("name", metavar="HOST", help=_NAME)
    parser.add_argument(
        "--python", metavar="PATH", help="an interpreter there (default: whose torch sees GPUs)"
    )
    parser.add_argument("--folder", metavar="PATH", help="where runs start there (~/fresnel)")
    parser.add_argument("--budget", metavar="USD", help="what may be spent there")
    parser.add_argument("--train", action="store_true", help="what the shipped trainers need, too")
    parser.add_argument(
        "--torch-index",
        default="",
        metavar="URL",
        help="with --train, where there is no torch: pip's index for its ROCm or CUDA build",
    )


def push(parser: CommandParser) -> None:
    """`push`: what a preset needs, taken there."""
    parser.add_argument("preset", metavar="PRESET", help="a preset's name, or a YAML file")
    parser.add_argument("--host", metavar="HOST", required=True, help="to which machine")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a parameter or key of the preset (repeatable)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would go, with sizes, and send nothing"
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave out (repeatable)"
    )
    parser.add_argument(
        "--also", action="append", default=[], metavar="PATH", help="send this too (repeatable)"
    )
    parser.set_defaults(action="push:run_push")
    examples(
        parser,
        "push gaussian-fast --host amd --dry-run",
        "push gaussian-fast --host amd --exclude '*.tmp' --also models/dinov2.onnx",
    )


def fetch(parser: CommandParser) -> None:
    """`fetch`: results, brought here."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN)
    parser.add_argument("--host", metavar="HOST", required=True, help="from which machine")
    parser.add_argument(
        "--all", action="store_true", help="every run there that was not fetched yet"
    )
    parser.add_argument(
        "--to", default="fetched", metavar="FOLDER", help="the folder here (default: ./fetched)"
    )
    parser.add_argument(
        "--every", metavar="TIME", help="again and again until the runs have ended, e.g. 10m"
    )
    parser.add_argument(
        "--checkpoints",
        choices=["best", "all", "none"],
        default="best",
        help="the best and the newest (default), all, or none",
    )
    parser.set_defaults(action="fetch:run_fetch")
    examples(
        parser,
        "fetch last --host amd --to results",
        "fetch last --host amd --every 10m",
        "fetch --all --host amd",
    )


def nodes(parser: CommandParser) -> None:
    """`nodes`: one program over several machines."""
    actions = Actions(parser, "list")
    parser.set_defaults(action="host_nodes:run_nodes")
    actions.add("list", "show the launches (the same as `nodes` alone)", ["nodes --json"])
    for name, summary in (
        ("status", "show every node"),
        ("stop", "stop every node step by step, the one where they meet last"),
        ("wait", "until all have ended; when one fails, stop the others and name it"),
    ):
        action = actions.add(name, summary, [f"nodes {name} last"])
        action.add_argument(
            "group", metavar="LAUNCH", help="a launch's name, its preset's, or `last`"
        )
        if name == "stop":
            action.add_argument("--force", action="store_true", help="SIGKILL at once")
    examples(
        parser,
        "launch pcdiff-8gpu --hosts a,b --scale linear",
        "nodes status last",
        "nodes stop last",
        notes="Started by `launch PRESET --hosts a,b`.",
    )
