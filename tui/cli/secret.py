"""`secret`: values for programs that stand in no preset and on no command line."""

import argparse
import getpass
import sys

from runners.model.errors import WrongInput
from runners.state.layout import StateDirectory
from runners.state.secret_store import check_secret_name, forget_secret, keep_secret, secret_names
from tui.cli.output import echo, print_json


def run_secret(arguments: argparse.Namespace) -> None:
    """Keep one, remove one, or name those that are kept; a value is never shown."""
    state = StateDirectory()
    if arguments.what == "set":
        keep_secret(state, arguments.name, _read_value(check_secret_name(arguments.name)))
        echo(f"{arguments.name} is kept; `--env {arguments.name}` gives it to a program")
    elif arguments.what == "remove":
        forget_secret(state, arguments.name)
        echo(f"{arguments.name} is removed")
    names = secret_names(state)
    if arguments.json:
        print_json({"secrets": names})
    elif arguments.what == "list":
        print(*names, sep="\n" if names else "", end="\n" if names else "")
        if not names:
            echo("no secrets yet: `fresnel-tui secret set NAME` keeps one")


def _read_value(name: str) -> str:
    """A value that somebody types without seeing it, or that is piped in; WrongInput for none."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"{name}: ")
    else:
        value = sys.stdin.read().removesuffix("\n")
    if not value:
        raise WrongInput(f"{name}: no value was given", f"fresnel-tui secret set {name} <FILE")
    return value
