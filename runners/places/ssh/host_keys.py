"""A machine's host key: taken down once, when it is added, and shown as its fingerprint.

ssh itself is asked, not ssh-keyscan: it goes through jump hosts and the user's own configuration.
"""

import subprocess
import tempfile
from pathlib import Path

from runners.host.files import read_plain, replace, size_of
from runners.model.errors import DeniedError
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, address_text
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble


def pin_key(registry: RemoteRegistry, host: RemoteHost, expected: str = "") -> str:
    """Keep the key that the machine shows now, and return its fingerprint (`SHA256:…`).

    RemoteTrouble when it shows none; DeniedError when it is not the `expected` one.
    """
    with tempfile.TemporaryDirectory(prefix="fresnel-key-") as folder:
        seen = Path(folder) / "known_hosts"
        errors = _first_contact(registry, host, seen)
        if not size_of(seen):
            raise _trouble(registry, host, errors)
        found = fingerprint(seen)
        if expected and expected.removeprefix("SHA256:").rstrip("=") != found[7:].rstrip("="):
            raise DeniedError(
                f"{host.name} shows the key {found}, not {expected}",
                "nothing was added: look up the fingerprint at the provider again",
            )
        pinned = registry.known_hosts(host.name)
        pinned.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(pinned, read_plain(seen))
    return found


def key_shown_now(registry: RemoteRegistry, host: RemoteHost) -> str | None:
    """The fingerprint of the key that the machine shows now; None when it shows none."""
    with tempfile.TemporaryDirectory(prefix="fresnel-key-") as folder:
        seen = Path(folder) / "known_hosts"
        _first_contact(registry, host, seen)
        return fingerprint(seen) if size_of(seen) else None


def _trouble(registry: RemoteRegistry, host: RemoteHost, errors: str) -> RemoteTrouble:
    """Why no key came; a machine that was not added yet cannot be tested by its name."""
    trouble = Ssh(registry, host).trouble(errors)
    if trouble.kind is Trouble.NOT_REACHED and host.name not in registry.names():
        hint = f"nothing was added: is {address_text(host)} right, and the machine on?"
        return RemoteTrouble(trouble.kind, trouble.message, hint)
    return trouble


def fingerprint(known_hosts: Path) -> str:
    """The fingerprint of the key in a file of ssh's known hosts, as `SHA256:…`."""
    done = subprocess.run(
        ["ssh-keygen", "-l", "-f", known_hosts], capture_output=True, text=True, check=False
    )
    fields = done.stdout.split()
    if done.returncode or len(fields) < 2:
        raise RemoteTrouble(Trouble.KEY_CHANGED, f"{known_hosts} holds no key that ssh can read")
    return fields[1]


def _first_contact(registry: RemoteRegistry, host: RemoteHost, seen: Path) -> str:
    """Have ssh write down the key, and log in nowhere; what it said."""
    extra = (
        "StrictHostKeyChecking=accept-new",
        f"UserKnownHostsFile={seen}",
        "PreferredAuthentications=none",
    )
    argv = [*Ssh(registry, host).command("never", extra=extra), "--", host.address, "true"]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no answer within 60 s"
    return done.stderr
