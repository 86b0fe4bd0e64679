"""The command line: every command, its flags and its help."""

import argparse
from collections.abc import Sequence

from runners import __version__
from tui.cli.host_arguments import add_elsewhere, add_hosts

_EXIT_CODES = """\
exit codes:
  0 done   1 the run failed (or was stopped)   2 wrong input   3 not found   130 interrupted
  4 denied: GPUs are not free, the run is another host's, or others may write its folder

RUN is a run's id, the beginning of one, a name (its newest run), or `last`.
Everything is kept in $FRESNEL_STATE_DIR (default: $XDG_STATE_HOME/fresnel-tui).
Without a command, the panel opens: `fresnel-tui`, or `fresnel-tui --launch PRESET`.
"""


def split_command(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before a bare `--`, and those behind it (None when there is no `--`)."""
    listed = list(words)
    if "--" not in listed:
        return listed, None
    at = listed.index("--")
    return listed[:at], listed[at + 1 :]


def build_parser() -> argparse.ArgumentParser:
    """The parser of all headless commands; `action` is FILE:FUNCTION, imported when it is
    chosen.
    """
    parser = argparse.ArgumentParser(
        prog="fresnel-tui",
        description="Launch, watch and stop training runs that survive the terminal they were "
        "started from.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fresnel-tui {__version__}")
    parser.add_argument(
        "--no-ui", action="store_true", help="do not open the panel; implied by a command"
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command_name")
    _add_launching(commands)
    _add_inspecting(commands)
    _add_ending(commands)
    _add_labelling(commands)
    _add_money(commands)
    _add_keeping(commands)
    _add_opening(commands)
    add_hosts(commands, _command)
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-ui", action="store_true", help=argparse.SUPPRESS)
    add_elsewhere(parser, name)
    return parser


def _add_launching(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for name, action, text in (
        ("launch", "launch:run_launch", "start a run: a preset, or any command behind --"),
        ("plan", "launch:run_plan", "print exactly what launch would run, and start nothing"),
    ):
        parser = _command(commands, name, text)
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
            help="change a parameter or any key of the preset (repeatable)",
        )
        parser.add_argument(
            "--again",
            metavar="RUN",
            help="as RUN was launched; --set changes its parameters, the other flags the rest",
        )
        parser.add_argument(
            "--resume",
            metavar="RUN|PATH",
            help="go on from a run's newest checkpoint, as it was launched; or with PRESET, from "
            "a run's or a checkpoint file",
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--gpus", metavar="N", help="how many GPUs: a number, 0 for none, or all"
        )
        which.add_argument("--gpu-ids", metavar="IDS", help="which GPUs, e.g. 0-6,7 or UUIDs")
        parser.add_argument(
            "--scale",
            choices=["linear", "sqrt", "batch"],
            help="keep the preset's batch per GPU on another number of GPUs, and the learning "
            "rate by this rule "
            "(batch: leave it)",
        )
        parser.add_argument("--name", default="", help="what to call the run")
        parser.add_argument(
            "--price",
            metavar="NAME|USD",
            help="a name from prices.yaml, or dollars per GPU and hour",
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
        if name == "launch":
            parser.add_argument(
                "--no-queue", action="store_true", help="be denied (exit 4) instead of waiting"
            )
            until = parser.add_mutually_exclusive_group()
            until.add_argument("--wait", action="store_true", help="return when the run has ended")
            until.add_argument(
                "--follow", action="store_true", help="show its output, then a summary"
            )
        parser.set_defaults(action=action)


def _add_inspecting(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "list", "show the runs: all live ones and the newest ended ones")
    parser.add_argument(
        "--all", action="store_true", help="every ended run, not only the newest 100"
    )
    parser.set_defaults(action="inspect:run_list")
    parser = _command(commands, "status", "show one run")
    parser.add_argument("run", metavar="RUN")
    parser.set_defaults(action="inspect:run_status")
    parser = _command(
        commands, "diagnose", "say why a run ended, on what that rests, and what to do about it"
    )
    parser.epilog = (
        "examples: fresnel-tui diagnose last   fresnel-tui diagnose RUN --json. Your own "
        "signatures: ~/.config/fresnel-tui/signatures.yaml"
    )
    parser.add_argument("run", metavar="RUN")
    parser.set_defaults(action="diagnose:run_diagnose")
    _add_checkpoint(commands)
    parser = _command(commands, "logs", "print a run's output")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("-n", "--lines", type=int, metavar="N", help="only the last N lines")
    parser.set_defaults(action="logs:run_logs")
    parser = _command(
        commands, "metrics", "show a run's metrics: last, least, greatest and course of each"
    )
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "--csv", action="store_true", help="every value: metric,step,epoch,time,value"
    )
    parser.add_argument("--name", metavar="REGEX", help="only metrics whose name matches")
    parser.add_argument("--last", type=int, metavar="N", help="only the last N values of each")
    parser.add_argument("--watch", action="store_true", help="go on until the run has ended")
    parser.set_defaults(action="metrics:run_metrics")
    parser = _command(
        commands, "gpus", "show the GPUs, who holds them, and their numbers inside the run"
    )
    parser.add_argument(
        "--watch", action="store_true", help="go on with every new reading; JSON lines with --json"
    )
    parser.add_argument(
        "--host",
        nargs="?",
        const=True,
        metavar="NAME",
        help="the host too; with --json one object around the GPUs. With NAME: those of that "
        "rented machine",
    )
    parser.set_defaults(action="gpus:run_gpus")
    parser = _command(
        commands, "monitor", "everything at a glance: session, GPUs, host, live runs, their disks"
    )
    parser.add_argument("--watch", action="store_true", help="go on until interrupted")
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="S", help="with --watch: seconds between looks"
    )
    parser.add_argument(
        "-n", "--lines", type=int, default=3, metavar="N", help="last lines of each run (default 3)"
    )
    parser.set_defaults(action="monitor:run_monitor")
    parser = _command(commands, "attach", "join the terminal of a run launched with --tty")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--take", action="store_true", help="type here, whoever typed before")
    parser.set_defaults(action="attach:run_attach")
    parser = _command(commands, "shell", "open a shell with a run's environment, folder and GPUs")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--do", metavar="COMMAND", help="run this instead of an interactive shell")
    parser.set_defaults(action="attach:run_shell")
    parser = _command(
        commands, "presets", "list the presets, or print the JSON Schema of a preset file"
    )
    parser.add_argument("what", nargs="?", choices=["list", "schema"], default="list")
    parser.set_defaults(action="presets:run_presets")


def _add_checkpoint(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands,
        "checkpoint",
        "look into checkpoint files, or write changed copies beside them",
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
Files are opened by PyTorch's weights-only loader, in an interpreter that has PyTorch; code in a
file is never run. The originals stay as they are; a copy that exists already is not replaced.

examples:
  fresnel-tui checkpoint inspect runs/epoch_0010.pt --json
  fresnel-tui checkpoint remap model.pth --device cuda:0 --python ~/venv/bin/python
  fresnel-tui checkpoint strip model.pth
  fresnel-tui checkpoint average epoch_0008.pt epoch_0009.pt epoch_0010.pt --output mean.pt
"""
    parser.add_argument(
        "what",
        choices=["inspect", "remap", "strip", "average"],
        help="inspect: keys, shapes, step, devices, wrappers, who wrote it; remap: to --device; "
        "strip: without module. and _orig_mod.; average: the mean of several",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument(
        "--python", metavar="INTERPRETER", help="a Python that has PyTorch (default: this one)"
    )
    parser.add_argument("--preset", metavar="PRESET", help="the interpreter this preset names")
    parser.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="with remap: cpu (default) or cuda:N"
    )
    parser.add_argument("--output", metavar="PATH", help="where the copy goes")
    parser.set_defaults(action="checkpoint:run_checkpoint")


def _add_ending(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands, "stop", "stop runs by their stop ladder; asked again, the next rung is taken"
    )
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--all", action="store_true", help="every live run")
    parser.add_argument(
        "--force", action="store_true", help="SIGKILL at once: no checkpoint is written"
    )
    parser.add_argument("--wait", action="store_true", help="return when they have ended")
    parser.set_defaults(action="stop:run_stop")
    parser = _command(
        commands, "drain", "let what runs finish, and nothing start: on, off, or show which"
    )
    parser.add_argument("what", nargs="?", choices=["on", "off", "status"])
    parser.set_defaults(action="stop:run_drain")
    parser = _command(commands, "wait", "wait until a run has ended; its ending is the exit code")
    parser.add_argument("run", metavar="RUN")
    parser.set_defaults(action="stop:run_wait")


def _add_labelling(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "rename", "give a run another name")
    parser.add_argument("run", metavar="RUN", help="the run")
    parser.add_argument("name", nargs="?", metavar="NAME", help="its name from now on")
    parser.add_argument("--reset", action="store_true", help="back to the name of its launch")
    parser.set_defaults(action="labels:run_rename")
    parser = _command(commands, "tag", "add tags to a run or group, or show those it has")
    parser.add_argument("run", metavar="RUN", help="a run, or a group")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="one word each")
    parser.set_defaults(action="labels:run_tag")
    parser = _command(commands, "untag", "take tags from a run or group")
    parser.add_argument("run", metavar="RUN", help="a run, or a group")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="which tags")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.set_defaults(action="labels:run_untag")
    parser = _command(commands, "note", "write a note on a run, or show it")
    parser.add_argument("run", metavar="RUN", help="the run")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the note, in place of any older")
    parser.add_argument("--clear", action="store_true", help="remove it")
    parser.set_defaults(action="labels:run_note")
    for name, text in (
        ("star", "mark runs as ones to keep: prune leaves them alone"),
        ("unstar", "take the star from runs"),
    ):
        parser = _command(commands, name, text)
        parser.add_argument("runs", nargs="+", metavar="RUN", help="runs, or groups")
        parser.set_defaults(action="labels:run_star")
    parser = _command(commands, "delete", "delete ended runs; undelete brings them back")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs, or groups")
    parser.add_argument(
        "--forever", action="store_true", help="free the disk at once: nothing brings them back"
    )
    parser.set_defaults(action="trash:run_delete")
    parser = _command(commands, "undelete", "bring deleted runs back, or list them")
    parser.add_argument(
        "runs", nargs="*", metavar="DELETED", help="id, its beginning, name, or last"
    )
    parser.add_argument("--empty", action="store_true", help="remove all of them for good")
    parser.set_defaults(action="trash:run_undelete")
    parser = _command(commands, "priority", "change or show the priority of a queued run")
    parser.add_argument("run", metavar="RUN", help="a run that waits")
    parser.add_argument(
        "number", nargs="?", type=int, metavar="N", help="higher goes first (default 0)"
    )
    parser.set_defaults(action="queue:run_priority")
    parser = _command(commands, "cancel", "take queued runs out of the queue")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="runs that wait, or groups")
    parser.add_argument("--all", action="store_true", help="every queued run")
    parser.set_defaults(action="queue:run_cancel")


def _add_money(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands, "cost", "show what is being spent, and on what; plan a budget; export the ledger"
    )
    parser.usage = (
        "fresnel-tui cost [plan 'PRESET:COUNT …' | export [--csv]] [--budget USD] [--json]"
    )
    parser.add_argument("what", nargs="?", choices=["show", "plan", "export"], default="show")
    parser.add_argument(
        "words", nargs="*", metavar="PRESET:COUNT", help="with plan, e.g. validate:1 fast:4"
    )
    parser.add_argument("--budget", metavar="USD", help="with plan: what may be spent")
    parser.add_argument(
        "--csv", action="store_true", help="with export (the default, unless --json)"
    )
    parser.set_defaults(action="cost:run_cost")
    parser = _command(
        commands,
        "session",
        "a rented machine's billing period: start, status, budget, price (corrects it), end",
    )
    parser.add_argument(
        "what", nargs="?", choices=["start", "status", "budget", "price", "end"], default="status"
    )
    parser.add_argument(
        "--price", metavar="NAME|USD", help="a name from prices.yaml, or dollars per GPU and hour"
    )
    parser.add_argument("--rate", metavar="USD", help="dollars per hour for the whole machine")
    parser.add_argument("--gpus", metavar="N", help="how many GPUs (cards) the machine has")
    parser.add_argument(
        "--anyway", action="store_true", help="take a price that does not fit this machine"
    )
    parser.add_argument(
        "--since", default="boot", metavar="WHEN", help="boot (default), now, or 2026-11-20T14:00"
    )
    parser.add_argument("--budget", metavar="USD", help="dollars you mean to spend at most")
    parser.set_defaults(action="session:run_session")
    _add_guards(commands)


def _add_guards(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands,
        "guard",
        "what acts when a budget, an age or idleness is reached, without any panel",
    )
    parser.add_argument(
        "what", nargs="?", choices=["status", "set", "postpone", "off", "run"], default="status"
    )
    parser.add_argument(
        "length", nargs="?", metavar="TIME", help="with postpone: for how long, e.g. 1h"
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
    parser.set_defaults(action="guard:run_guard")
    parser = _command(commands, "fetched", "note that a run's results are safe somewhere else")
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--all", action="store_true", help="every ended run of this host")
    parser.add_argument("--to", default="", metavar="WHERE", help="where they were taken")
    parser.set_defaults(action="guard:run_fetched")


def _add_keeping(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands,
        "doctor",
        "look at everything runs depend on, and say what to do; exit 1 on a FAIL",
    )
    parser.set_defaults(action="doctor:run_doctor")
    parser = _command(
        commands, "prune", "remove ended runs that meet all criteria given; never a live one"
    )
    parser.add_argument("--older-than", metavar="AGE", help="ended longer ago than this, e.g. 30d")
    parser.add_argument(
        "--keep", type=int, metavar="N", help="all but the newest N of those that ended so"
    )
    parser.add_argument("--state", metavar="STATES", help="that ended so, e.g. done,failed")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.set_defaults(action="housekeeping:run_prune")
    parser = _command(
        commands, "service", "bring runs, queue, guard and session back after a boot (systemd)"
    )
    parser.add_argument(
        "what",
        choices=["install", "status", "remove", "unit", "boot"],
        help="unit: print a classic unit that owns a run itself; boot: what the unit runs",
    )
    parser.add_argument("preset", nargs="?", metavar="PRESET", help="with unit")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--user", action="store_true", help="in your own systemd (default)")
    whose.add_argument("--system", action="store_true", help="in the machine's, as you")
    parser.set_defaults(action="service:run_service")


def _add_opening(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(
        commands, "serve", "show the panel in a browser, on this machine or through ssh -L"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on (127.0.0.1: only this machine)",
    )
    parser.add_argument(
        "--port", type=int, default=8811, metavar="N", help="default 8811; 0 for any free one"
    )
    parser.add_argument("--read-only", action="store_true", help="show, and touch nothing")
    parser.add_argument(
        "--without-tls",
        action="store_true",
        help="with another --host: the token crosses the network in the clear",
    )
    parser.set_defaults(action="serve:run_serve")
    parser = _command(
        commands,
        "completion",
        "print the script that completes commands, runs and presets in a shell",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.set_defaults(action="completion:run_completion")
