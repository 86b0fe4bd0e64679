"""What an agent does for copies: a tool reads one line of JSON and answers behind the marker."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.host.files import read_plain
from runners.model.errors import FresnelError
from runners.places.ssh.protocol import MARKER
from runners.places.ssh.stream import list_files, pack, unpack


def run_tool(arguments: Sequence[str]) -> int:
    """Run the tool named first; 2 for one that there is not."""
    tools = {"have": _have, "receive": _receive, "send": _send, "manifest": _manifest}
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
    """Size and time (s) of each file in a folder."""
    folder = Path(request["folder"]).expanduser()
    names = request.get("names")
    if names is None:
        found = list_files(folder)
    else:
        found = {}
        for name in names:
            try:
                status = (folder / name).stat()
            except OSError:
                continue
            found[name] = (status.st_size, status.st_mtime_ns)
    answer = {name: [size, time // 10**9] for name, (size, time) in found.items()}
    line.write(json.dumps(answer).encode())


def _manifest(request: dict[str, Any], line: Any) -> None:
    """What is to be brought of each run, with its hash; and this machine's ledger."""
    from runners.places.ssh.manifest import make_manifest
    from runners.state.layout import StateDirectory
    from runners.state.runs import find_runs

    state = StateDirectory()
    answer: dict[str, Any] = {"runs": [], "ledger": ""}
    try:
        for run in find_runs(state, request["runs"]):
            answer["runs"].append(make_manifest(state, run, request.get("checkpoints", "best")))
    except FresnelError as error:
        answer["error"] = [error.message, error.hint, int(error.exit_code)]
    with suppress(OSError):
        answer["ledger"] = read_plain(state.ledger).decode("utf-8", "replace")
    line.write(json.dumps(answer).encode())


def _receive(request: dict[str, Any], line: Any) -> None:
    folder = Path(request["folder"]).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    unpack(sys.stdin.buffer, folder)


def _send(request: dict[str, Any], line: Any) -> None:
    pack(Path(request["folder"]).expanduser(), request["names"], line)
