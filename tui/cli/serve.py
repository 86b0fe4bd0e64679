"""`serve`: the panel in a browser."""

import argparse
import logging
import secrets
import socket
from ipaddress import ip_address

from runners.host.helpers import this_program
from runners.host.identity import host_name
from runners.model.errors import WrongInput
from tui.cli.output import echo, print_json


def run_serve(arguments: argparse.Namespace) -> None:
    """Serve the panel until Ctrl+C; the address, with its token, is printed once."""
    try:
        from aiohttp import web

        from tui.web.auth import TokenAuth, is_loopback
        from tui.web.server import PanelServer
    except ImportError as error:
        raise WrongInput(
            f"serve needs textual-serve ({error})", "pip install 'fresnel-tui[serve]'"
        ) from None
    local = is_loopback(arguments.host)
    if not local and not arguments.without_tls:
        raise WrongInput(
            f"--host {arguments.host} would open the panel to the network, and its token would "
            "cross it unencrypted: there is no TLS",
            f"leave out --host and use `{_tunnel(arguments.port)}` on your own computer, or accept "
            "it with --without-tls",
        )
    listening = _listen(arguments.host, arguments.port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(32)
    shown = _name_to_open(arguments.host)
    names = frozenset(
        {arguments.host.lower(), socket.gethostname().lower(), host_name().lower()}
        if not local
        else ()
    )
    auth = TokenAuth(token, names, port, local)
    url = f"http://{shown}:{port}{auth.place}?token={token}"
    if arguments.json:
        print_json({"url": url, "host": arguments.host, "port": port, "token": token})
    else:
        print(url, flush=True)
    echo(
        "Anyone with this address can do all that you can do in the panel"
        + (
            " (which only shows: --read-only)."
            if arguments.read_only
            else ", launching commands included."
        )
    )
    if local:
        echo(f"From another machine: {_tunnel(port)}\nand then open the same address there.")
    echo("Ctrl+C ends the panel; runs go on.")
    command = [*this_program(), *(["--read-only"] if arguments.read_only else [])]
    logger = logging.getLogger("aiohttp")
    logger.addHandler(_Discreet())
    logger.propagate = False
    server = PanelServer(command, auth)
    web.run_app(server.application(), sock=listening, print=None, access_log=None)


class _Discreet(logging.Handler):
    """Says that something was refused, and nothing of what it was: requests hold the token."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        echo(f"serve: a request was refused{f' ({kind.__name__})' if kind else ''}")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # a name may be none that DNS could have
        reason = getattr(error, "strerror", None) or error
        raise WrongInput(
            f"cannot listen on {host}, port {port}: {reason}", "try --port 0"
        ) from None


def _name_to_open(host: str) -> str:
    """What to write into a browser: an address of every interface is none to open."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return socket.gethostname()
    return f"[{host}]" if address.version == 6 else host


def _tunnel(port: int) -> str:
    return f"ssh -L {port}:127.0.0.1:{port} {host_name()}"
