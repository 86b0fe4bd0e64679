"""`host shell`, `host forward`, `host ssh-config`: one's own ways to a machine, strict as ours."""

import argparse
import shlex
import socket
import subprocess
import sys
import time

from runners.host.files import expanded
from runners.model.errors import DeniedError, WrongInput
from runners.places.ssh.output_tail import OutputTail
from runners.places.ssh.ssh import Ssh
from tui.cli.output import echo, print_json

_MOST_PORT = 65535
_LOOKS_EVERY_S = 0.05
_OPEN_WITHIN_S = 0.2
_SPELLED = {
    "hostname": "HostName",
    "user": "User",
    "port": "Port",
    "identityfile": "IdentityFile",
    "proxyjump": "ProxyJump",
}


def open_shell(arguments: argparse.Namespace, ssh: Ssh) -> int:
    """A shell there, in the folder where runs start; or a command, whose exit code is ours."""
    command = arguments.trailing_command
    folder = f"cd {shlex.quote(ssh.host.folder)} 2>/dev/null; " if ssh.host.folder else ""
    line = folder + (f"exec {shlex.join(command)}" if command else 'exec "$SHELL" -l')
    terminal = sys.stdin.isatty() and (not command or sys.stdout.isatty())
    argv = ssh.command(ssh.link_sharing, batch=not sys.stdin.isatty(), terminal=terminal)
    return subprocess.run([*argv, "--", ssh.host.address, _by_sh(line)], check=False).returncode


def _by_sh(line: str) -> str:
    """A command line that has `sh` read `line`, whatever the login shell there makes of quotes."""
    octal = "".join(f"\\{byte:03o}" for byte in line.encode("utf-8", "surrogateescape"))
    return f"exec sh -c 'eval \"$(printf \"$0\")\"' '{octal}'"


def forward_ports(arguments: argparse.Namespace, ssh: Ssh) -> None:
    """Ports of that machine's loopback at this one's, until Ctrl+C or the line's end."""
    pairs = [_ports(text) for text in arguments.ports]
    for here, _ in pairs:
        _require_free(here)
    # Ours clear all forwardings of the user's configuration: what stands first counts.
    extra = ["ClearAllForwardings=no", "ExitOnForwardFailure=yes", "SessionType=none"]
    extra += [f"LocalForward=127.0.0.1:{here} 127.0.0.1:{target}" for here, target in pairs]
    errors = OutputTail()
    with errors.listening() as sink:
        argv = [*ssh.command("never", extra=extra), "--", ssh.host.address]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=sink)
    try:
        while process.poll() is None and not all(_is_open(here) for here, _ in pairs):
            time.sleep(_LOOKS_EVERY_S)
        if process.poll() is None:
            if arguments.json:
                ports = [{"here": here, "there": target} for here, target in pairs]
                print_json({"host": ssh.host.name, "ports": ports})
            for here, target in pairs:
                echo(f"http://127.0.0.1:{here} is port {target} of {ssh.host.name}; Ctrl+C ends it")
        process.wait()
        raise ssh.trouble(errors.text)
    except KeyboardInterrupt:
        return
    finally:
        process.terminate()
        process.wait()
        errors.close()


def print_configuration(arguments: argparse.Namespace, ssh: Ssh) -> None:
    """A block for ~/.ssh/config by which editors and others reach the machine, its key pinned."""
    alias = f"fresnel-{ssh.host.name}"
    found = [
        *_resolved(ssh),
        ("HostKeyAlias", alias),
        ("UserKnownHostsFile", f'"{ssh.registry.known_hosts(ssh.host.name)}"'),
        ("StrictHostKeyChecking", "yes"),
        ("ForwardAgent", "no"),
    ]
    if arguments.json:
        print_json({"host": ssh.host.name, "alias": alias, "options": found})
        return
    print("\n".join([f"Host {alias}", *(f"    {name} {value}" for name, value in found)]))
    if sys.stdout.isatty():
        echo(f"add it to ~/.ssh/config; editors then open {alias}")


def _resolved(ssh: Ssh) -> list[tuple[str, str]]:
    """Where ssh's own configuration leads; of the keys it would try, those that are there."""
    return [
        (_SPELLED[name], value)
        for name, value in ssh.configuration()
        if name in _SPELLED
        and value != "none"
        and (name != "identityfile" or expanded(value).exists())
    ]


def _ports(text: str) -> tuple[int, int]:
    """`6006`, or `16006:6006` for another number here."""
    here, _, target = text.partition(":")
    try:
        ports = int(here), int(target or here)
    except ValueError:
        ports = 0, 0
    if not all(0 < port <= _MOST_PORT for port in ports):
        raise WrongInput(f"`{text}` is no port", "6006, or 16006:6006 for another one here")
    return ports


def _require_free(port: int) -> None:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise DeniedError(
                f"port {port} is not to be had here: {reason}", f"{port + 10_000}:{port}, say"
            ) from None


def _is_open(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), _OPEN_WITHIN_S):
            return True
    except OSError:
        return False
