"""What a real agent sends over its line has no planted secret in it, whatever it is asked."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from runners.places.ssh.protocol import MessageReader
from runners.places.ssh.snapshot_updates import LAYOUT
from runners.state.layout import config_dir
from tests.process.conftest import COMMAND, CommandLine
from tests.secret_kinds import secrets_of

_PRINTS = "echo up; exit 3"


class _Line:
    """An agent of this machine; `sent` is every byte that it wrote."""

    def __init__(self, agent: "subprocess.Popen[bytes]") -> None:
        self.agent = agent
        self.sent = b""
        self._reader = MessageReader(marker=True)
        self._number = 0

    def ask(self, **fields: Any) -> dict[str, Any]:
        """The first frame that answers a request."""
        self._number += 1
        assert self.agent.stdin and self.agent.stdout
        request = {"id": self._number, "layout": LAYOUT, **fields}
        self.agent.stdin.write(json.dumps(request).encode() + b"\n")
        self.agent.stdin.flush()
        while True:
            block = self.agent.stdout.read1(1 << 16)
            assert block, "the agent has left"
            self.sent += block
            for frame in self._reader.feed(block):
                if frame.fields.get("id") == self._number:
                    found: dict[str, Any] = frame.fields
                    return found


@contextmanager
def _agent(cli: CommandLine) -> Iterator[_Line]:
    agent = subprocess.Popen(
        [*COMMAND, "host-agent", "watch"],
        cwd=cli.folder,
        env=cli.environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _Line(agent)
    finally:
        agent.kill()
        agent.communicate()


def test_no_frame_of_an_agent_has_a_secret(cli: CommandLine) -> None:
    secrets = secrets_of(44)
    shares = [secrets[place::3] for place in range(3)]
    preset = {
        "launcher": "command",
        "command": ["sh", "-c", _PRINTS, "train", *(f"--{s.name}={s.value}" for s in shares[0])],
        "gpus": 0,
        "environment": {s.name.replace("-", "_"): s.value for s in shares[1]},
        "parameters": {
            s.name.replace("-", "_"): {"value": s.value, "type": "str", "flag": f"--{s.name}"}
            for s in shares[2]
        },
    }
    presets = config_dir() / "presets"
    presets.mkdir(parents=True)
    (presets / "aa-own.yaml").write_text(yaml.safe_dump(preset))
    run = cli.launch("aa-own")
    assert cli.ended(run)["state"] == "failed"
    folder = str(cli.folder)
    with _agent(cli) as line:
        for question in ("view", "details", "remedies", "comparison", "again"):
            answer = line.ask(do="ask", question=question, subjects=[run.id], folder=folder)
            assert "answer" in answer, (question, answer)
        choices = line.ask(do="ask", question="choices", subjects=[], folder=folder)
        assert "aa-own" in json.dumps(choices)
        for question in ("plan", "verify"):
            words = ["launch", "aa-own"]
            answer = line.ask(do="ask", question=question, subjects=words, folder=folder)
            assert "answer" in answer, (question, answer)
        assert "runs" in json.dumps(line.ask(do="older", before="99999999"))
        assert "snapshot" in line.ask(do="watch")
    text = line.sent.decode("utf-8", "replace")
    assert run.id in text
    assert not [secret for secret in secrets if secret.bare in text]
