"""What an agent does for copies: a tool reads one line of JSON and answers behind the marker."""

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runners.host.below import resolve_below
from runners.host.files import expanded, read_plain
from runners.model.errors import FresnelError
from runners.places.ssh.copying import stamps_of
from runners.places.ssh.protocol import MARKER

_BEAT_S = 10.0


def run_tool(arguments: Sequence[str]) -> int:
    """Run the tool named first; 2 for one that there is not."""
    tools = {
        "have": _have,
        "receive": _receive,
        "remove": _remove,
        "send": _send,
        "manifest": _manifest,
        "account": _account,
        "clean": _clean,
    }
    tool = tools.get(arguments[0])
    if tool is None:
        print(f"host-agent: no tool {arguments[0]!r}", file=sys.stderr)
        return 2
    line = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line.write(b"\n" + MARKER)
    line.flush()
    request = json.loads(sys.stdin.buffer.readline())
    tool(request, line)
    line.close()
    return 0


def _have(request: dict[str, Any], line: Any) -> None:
    """The stamps of files of a folder."""
    found = stamps_of(expanded(request["folder"]), request["names"])
    line.write(json.dumps(found).encode())


def _remove(request: dict[str, Any], line: Any) -> None:
    """Delete those files of a folder that have these stamps still, then folders that are empty."""
    folder = Path(request["folder"])
    removed = []
    for name, stamp in request["files"].items():
        with suppress(OSError, ValueError):
            path = resolve_below(folder, name)
            if stamps_of(folder, [name]).get(name) == tuple(stamp):
                path.unlink()
                removed.append(name)
    for name in request["folders"]:
        with suppress(OSError, ValueError):
            resolve_below(folder, name).rmdir()
    line.write(json.dumps({"removed": removed}).encode())


def _manifest(request: dict[str, Any], line: Any) -> None:
    """What is to be brought of each run, with its hash; and this machine's ledger."""
    import msgspec

    from runners.places.ssh.fetch import Manifests
    from runners.places.ssh.manifest import make_manifest
    from runners.state.layout import StateDirectory
    from runners.state.runs import find_runs

    state, checkpoints = StateDirectory(), request.get("checkpoints", "best")
    pushed = [str(folder) for folder in request.get("pushed", ())]
    answer = Manifests()
    try:
        with _beating(line):
            runs = [
                make_manifest(state, run, checkpoints, pushed)
                for run in find_runs(state, request["runs"])
            ]
        answer = Manifests(runs)
    except FresnelError as error:
        answer = Manifests(error=(error.message, error.hint, int(error.exit_code)))
    with suppress(OSError):
        # No ledger: nothing was ever paid for here.
        text = read_plain(state.ledger).decode("utf-8", "replace")
        answer = msgspec.structs.replace(answer, ledger=text)
    line.write(msgspec.json.encode(answer))


def _account(request: dict[str, Any], line: Any) -> None:
    """What this machine costs: its session, its live runs, and what is new in its ledger."""
    from runners.places.ssh.accounts import account_of_here

    line.write(account_of_here(int(request.get("ledger_from", 0))))


@contextmanager
def _beating(line: Any) -> Iterator[None]:
    """Write a blank now and then, which no JSON minds: whoever waits knows that it goes on."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_BEAT_S):
            with suppress(OSError):
                line.write(b" ")
                line.flush()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _clean(request: dict[str, Any], line: Any) -> None:
    """What is left of us on this machine, removed when that is asked for."""
    import msgspec

    from runners.places.ssh.leftovers import LeftoversQuestion, look_at_leftovers

    question = msgspec.convert(request, LeftoversQuestion)
    with _beating(line):
        answer = msgspec.json.encode(look_at_leftovers(question))
    line.write(answer)


def _receive(request: dict[str, Any], line: Any) -> None:
    folder = expanded(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    from runners.places.ssh.stream import unpack

    unpack(sys.stdin.buffer, folder)


def _send(request: dict[str, Any], line: Any) -> None:
    from runners.places.ssh.stream import pack

    folder = expanded(request["folder"])
    pack(folder, request["names"], line, request.get("parts"))
