"""`host clean`: what is left on a machine that goes on without us, shown, then removed."""

import argparse

import msgspec

from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.agent_tool import ask_tool
from runners.places.ssh.frames import decoded
from runners.places.ssh.leftovers import Leftovers, LeftoversQuestion
from runners.places.ssh.pushed_files import forget_pushed, list_pushed_folders
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import remote_output
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.host_end import refuse_while_needed
from tui.cli.output import agreed, echo, print_json, print_table
from tui.views.format import DASH, size


def clean_host(arguments: argparse.Namespace) -> int:
    """Refuse while something is needed there; show what is left; remove it when that is wanted."""
    registry = RemoteRegistry(StateDirectory())
    host = registry.find(arguments.name)
    if not host.command:
        raise FresnelError(f"{host.name} is not set up: nothing of ours is there")
    ssh = Ssh(registry, host)
    refuse_while_needed(ssh, arguments.anyway)
    question = LeftoversQuestion(host.folder, list_pushed_folders(registry, host))
    left = _ask(ssh, question)
    if not arguments.json:
        _show(left)
    asked, hint = f"remove this from {host.name}?", "--yes removes it without asking"
    if not agreed(asked, arguments.yes, "this would be removed", hint):
        return ExitCode.RUN_FAILED
    stopped = remote_output(ssh, ["guard", "off"])
    if stopped.exit_code not in (ExitCode.DONE, ExitCode.NOT_FOUND):
        problem = stopped.errors.decode("utf-8", "replace").strip()
        raise FresnelError(f"{host.name}: its guard was not ended: {problem}")
    left = _ask(ssh, msgspec.structs.replace(question, remove=True))
    forget_pushed(registry, host)
    registry.save(msgspec.structs.replace(host, command="", folder="", installed=""))
    if arguments.json:
        print_json({"host": host.name, **msgspec.to_builtins(left)})
    for item in left.items:
        echo(f"⚠ {item.path} stays: {item.problem}" if item.problem else f"removed {item.path}")
    echo(
        "lingering is as it was: `loginctl disable-linger` there switches it off\n"
        f"next: fresnel-tui host remove {host.name}"
    )
    return ExitCode.DONE


def _ask(ssh: Ssh, question: LeftoversQuestion) -> Leftovers:
    try:
        return decoded(ask_tool(ssh, "clean", msgspec.to_builtins(question)), Leftovers)
    except ValueError as error:
        raise FresnelError(f"{ssh.host.name}: {error}") from None


def _show(left: Leftovers) -> None:
    rows = [
        (item.what, item.path, size(item.bytes) if item.bytes else DASH, item.problem or "goes")
        for item in left.items
    ]
    print_table(("what", "where", "size", ""), rows)
