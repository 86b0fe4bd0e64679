"""The command line of rented machines: `host`, `push`, `fetch`, and `--host` of other commands."""

import argparse
from collections.abc import Callable

ELSEWHERE = frozenset(
    {"launch", "plan", "list", "status", "diagnose", "logs", "metrics", "gpus", "monitor"}
    | {"attach", "shell", "presets", "checkpoint", "stop", "drain", "wait", "cost", "session"}
    | {"guard", "fetched", "doctor", "prune", "service", "priority", "cancel"}
    | {"rename", "tag", "untag", "note", "star", "unstar", "delete", "undelete"}
)
"""Commands that `--host NAME` runs on a rented machine."""

_HOST_EPILOG = """\
add: an alias from ~/.ssh/config, or user@machine[:port]; the host key is pinned and shown
setup: the panel for your user alone, from here; the image's torch is left alone
connect: log in here with a password or a second factor, once for all that follows
end: refuses while runs live or results are not fetched, says what ends the bill, then runs the
     command of --end-command here

examples:
  fresnel-tui host add amd root@143.198.0.7 --price amd-cloud-mi300x
  fresnel-tui host setup amd --budget 100
  fresnel-tui push gaussian-fast --host amd --dry-run
  fresnel-tui launch gaussian-fast --host amd
  fresnel-tui logs last -f --host amd
  fresnel-tui fetch last --host amd --to results
  fresnel-tui host end amd --end-command 'doctl compute droplet delete 1234 --force'
"""


def add_elsewhere(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a command the flag that runs it on a rented machine."""
    if name in ELSEWHERE and name != "gpus":
        parser.add_argument(
            "--host", metavar="NAME", help="do it on this rented machine (`fresnel-tui host list`)"
        )


def add_hosts(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    command: Callable[..., argparse.ArgumentParser],
) -> None:
    """Add `host`, `push` and `fetch`."""
    parser = command(
        commands, "host", "rented machines: add, set up, look at, and end them, all over ssh"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HOST_EPILOG
    parser.add_argument(
        "what", choices=["add", "list", "remove", "connect", "test", "setup", "end"]
    )
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help="with add; else NAME itself")
    _add_adding(parser)
    _add_setup(parser)
    parser.add_argument(
        "--end-command", metavar="CMD", help="with add, end: run here to destroy the machine"
    )
    parser.add_argument("--yes", action="store_true", help="with end: do not ask")
    parser.add_argument(
        "--anyway", action="store_true", help="with end: although something is not fetched"
    )
    parser.set_defaults(action="host:run_host")
    _add_copying(commands, command)


def _add_adding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--price", metavar="NAME|USD", help="with add: a name from prices.yaml, or dollars per GPU"
    )
    parser.add_argument(
        "--fingerprint", metavar="SHA256:…", help="with add: refuse any other host key"
    )
    parser.add_argument(
        "--replace", action="store_true", help="with add: pin the key of a machine made anew"
    )
    parser.add_argument(
        "--ssh-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with add: an option of ssh_config for this machine (repeatable)",
    )


def _add_setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python", metavar="PATH", help="with setup: this interpreter there, instead of the best"
    )
    parser.add_argument(
        "--folder", metavar="PATH", help="with setup: where runs start there (~/fresnel)"
    )
    parser.add_argument("--budget", metavar="USD", help="with setup: what may be spent there")
    parser.add_argument(
        "--train", action="store_true", help="with setup: what the shipped trainers need, too"
    )
    parser.add_argument(
        "--torch-index",
        default="",
        metavar="URL",
        help="with setup --train, where there is no torch: pip's index for its ROCm or CUDA build",
    )


def _add_copying(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    command: Callable[..., argparse.ArgumentParser],
) -> None:
    parser = command(
        commands, "push", "take what a preset needs to a rented machine; again: what changed"
    )
    parser.add_argument("preset", metavar="PRESET")
    parser.add_argument("--host", metavar="NAME", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, with sizes")
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave out (repeatable)"
    )
    parser.add_argument(
        "--also", action="append", default=[], metavar="PATH", help="this too (repeatable)"
    )
    parser.set_defaults(action="push:run_push")
    parser = command(
        commands, "fetch", "bring results of runs from a rented machine, each checked by its hash"
    )
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--host", metavar="NAME", required=True)
    parser.add_argument(
        "--all", action="store_true", help="every run there that was not fetched yet"
    )
    parser.add_argument("--to", default="fetched", metavar="FOLDER", help="default: ./fetched")
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
