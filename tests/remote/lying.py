"""A machine that says whatever a test has it say: an `ssh` on the PATH that talks to nobody."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.layout import StateDirectory

_SSH = """\
#!{python} -ISs
import io, json, os, sys, time

MARKER = b"\\x1efresnel-tui link 1\\n"
says = json.load(open({answers!r}))
words = sys.argv[1:]
if "-O" in words:
    sys.exit(255)
if "-G" in words:
    print("hostname evil")
    print("proxycommand evil")
    sys.exit(0)
remote = words[words.index("--") + 2]
out = sys.stdout.buffer


def say(value, payload=""):
    data = payload.encode("latin-1")
    if isinstance(value, dict) and data:
        value = {{"bytes": len(data), **value}}
    line = value if isinstance(value, str) else json.dumps(value)
    out.write(line.encode("utf-8", "surrogatepass") + b"\\n" + data)
    out.flush()


def rest_of(what):
    if what == "freeze":
        time.sleep(600)


sys.stderr.write(says.get("stderr", ""))
sys.stderr.flush()
if "host-agent" not in remote:
    sys.stdin.buffer.read()
    out.write(says.get("shell", "").encode())
    sys.exit(says.get("code", 0))
tool = remote.partition("host-agent")[2].strip()
out.write(b"\\n" + MARKER)
out.flush()
if tool == "send":
    sys.stdin.buffer.readline()
    import tarfile
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for name, text, link in says.get("send", []):
            member = tarfile.TarInfo(name)
            member.size = 0 if link else len(text)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member, io.BytesIO(text.encode()))
elif tool in ("have", "manifest", "receive"):
    if tool == "receive":
        sys.stdin.buffer.read()
    else:
        sys.stdin.buffer.readline()
    rest_of(says.get(tool))
    value = says.get(tool, {{}})
    out.write((value if isinstance(value, str) else json.dumps(value)).encode())
else:
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        what = asked.get("do")
        answers = says.get(what, [])
        if what == "command":
            answers = says["command"].get(asked["arguments"][0], says["command"].get("", []))
        for fields, payload in answers:
            if isinstance(fields, dict):
                fields = {{"id": asked["id"], **fields}}
            say(fields, payload)
"""


class LyingMachine:
    """A host called `evil` in the registry of `state`; `says` is what it answers to what."""

    def __init__(self, folder: Path, state: StateDirectory) -> None:
        self.folder = folder
        self._answers = folder / "says.json"
        bin_folder = folder / "bin"
        bin_folder.mkdir(parents=True)
        program = bin_folder / "ssh"
        program.write_text(_SSH.format(python=sys.executable, answers=str(self._answers)))
        program.chmod(0o755)
        self.path = f"{bin_folder}:{os.environ['PATH']}"
        self.registry = RemoteRegistry(state.create())
        self.host = RemoteHost(
            "evil",
            "root@evil",
            command="/evil/fresnel-tui",
            folder="/evil/work",
            home="/evil",
            has_rsync=False,
        )
        self.registry.save(self.host)
        self.registry.known_hosts("evil").write_text("")
        self.says: dict[str, Any] = {}

    def say(self, **answers: Any) -> None:
        """Have it answer so from now on; bytes in `send`, messages as [fields, payload]."""
        self.says = {**self.says, **answers}
        self._answers.write_text(json.dumps(self.says))


def changed(value: Any, path: tuple[str | int, ...], to: Any) -> Any:
    """A copy of nested JSON in which what lies at `path` is `to`."""
    copy: Any = msgspec.json.decode(msgspec.json.encode(value))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return copy


def paths_of(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value in nested JSON."""
    found = [before] if before else []
    if isinstance(value, dict):
        steps: list[str | int] = list(value)
    else:
        steps = list(range(len(value))) if isinstance(value, list) else []
    for step in steps:
        found += paths_of(value[step], (*before, step))
    return found
