"""Secrets by the names of their variables: a file each, for this user only, in the state folder.

Texts name one as `${secrets.NAME}`, so that its value is in no preset, plan or command line. To
another machine it travels as a variable of the one command that needs it.
"""

import json
import os
import re
from collections.abc import Iterable

from runners.host.files import names_in, read_plain, replace
from runners.model.errors import NotFound, WrongInput
from runners.model.kept_secrets import SECRET_PREFIX
from runners.state.layout import StateDirectory

PLACE = "secrets."
"""What a `${…}` that names a secret begins with."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_MOST_BYTES = 64 << 10


def check_secret_name(name: str) -> str:
    """`name` when a variable may be called so; WrongInput otherwise."""
    if not _NAME.fullmatch(name):
        raise WrongInput(f"`{name}` is no name for a variable", "letters, digits and underscores")
    return name


def keep_secret(state: StateDirectory, name: str, value: str) -> None:
    """Keep a value, in place of the one before. WrongInput for what no variable can have."""
    data = value.encode("utf-8", "surrogateescape")
    if not data or b"\0" in data or len(data) > _MOST_BYTES:
        raise WrongInput(f"{name}: expected a text of 1 to {_MOST_BYTES:,} bytes")
    folder = state.create().secrets
    folder.mkdir(mode=0o700, exist_ok=True)
    replace(folder / check_secret_name(name), data)


def forget_secret(state: StateDirectory, name: str) -> None:
    """Remove a secret; NotFound when there is none."""
    try:
        (state.secrets / check_secret_name(name)).unlink()
    except OSError:
        kept = ", ".join(secret_names(state)) or "none"
        raise NotFound(f"no secret `{name}`", f"kept here: {kept}") from None


def secret_names(state: StateDirectory) -> list[str]:
    """The names of all that are kept, sorted."""
    return [name for name in names_in(state.secrets) if _NAME.fullmatch(name)]


def find_secret(name: str) -> str | None:
    """The value of a secret: one that came with this command, a variable of here, one kept here.

    None where there is none.
    """
    came = os.environ.get(f"{SECRET_PREFIX}{PLACE}{name}")
    if came is not None:
        return str(json.loads(came))
    if name in os.environ:
        return os.environ[name]
    try:
        content = read_plain(StateDirectory().secrets / check_secret_name(name))
    except OSError:
        return None
    return content.decode("utf-8", "surrogateescape")


def travelling_secrets(names: Iterable[str]) -> dict[str, str]:
    """The variables in which these secrets go to another machine; those not known are left out."""
    return {
        f"{SECRET_PREFIX}{PLACE}{name}": json.dumps(value)
        for name in names
        if (value := find_secret(name)) is not None
    }
