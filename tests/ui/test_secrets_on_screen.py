"""No planted secret is ever painted by the panel, nor handed to the clipboard."""

import base64
import re
from pathlib import Path

import yaml

from runners.model.states import State
from tests.screen_text import ANY_RUNS, ENVIRONMENT, OWN_COMMAND, command, run_row
from tests.secret_kinds import secrets_of
from tests.terminal import Terminal
from tests.ui.conftest import Show

_PLACES = 3


def _clipboard(panel: Terminal) -> str:
    """Everything that was handed to the terminal's clipboard."""
    sent = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)(?=[\x07\x1b])", bytes(panel.raw))
    return "".join(base64.b64decode(text).decode() for text in sent)


def test_form_plan_details_clipboard_and_command_log_show_no_secret(
    show: Show, presets: Path, tmp_path: Path
) -> None:
    secrets = secrets_of(43)
    shares = [secrets[place::_PLACES] for place in range(_PLACES)]
    parameters = {
        s.name.replace("-", "_"): {"value": s.value, "type": "str", "flag": f"--{s.name}"}
        for s in shares[0]
    }
    own = {
        "launcher": "command",
        "command": ["sh", "-c", "exit 0", "train", *(f"--{s.name}={s.value}" for s in shares[1])],
        "gpus": 0,
        "environment": {s.name.replace("-", "_"): s.value for s in shares[2]},
        "parameters": {
            "typed_token": {"value": "", "type": "str", "flag": "--t", "help": "typed"},
            **parameters,
        },
    }
    (presets / "aa-own.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    panel = show(columns=160, rows=60, until=ANY_RUNS)
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.wait_for("aa-own")
    panel.wait_for(ENVIRONMENT)
    panel.press(*["Shift+Tab"] * 3, "Enter")
    panel.wait_for(r"environment\s")
    panel.press(*["Tab"] * 3, "Enter")
    panel.wait_for(r"\n│ typed_token: ")
    panel.press("SEKRETTYPED", "Tab")
    panel.wait_for(r"✎ typed_token")
    panel.press("F2")
    panel.wait_for(run_row(State.DONE, "aa-own"))
    panel.press("y")
    panel.wait_for("clipboard")
    panel.press("c")
    panel.wait_for(command("launch", "aa-own"))
    panel.press("y", "Escape")
    panel.wait_gone("actions as commands")
    panel.press("a")
    panel.wait_for("aa-own again")
    panel.wait_for("--set typed_token=")
    panel.press("Escape")
    panel.wait_gone("aa-own again")
    panel.press("i")
    panel.wait_for("Environment")
    panel.press("y")
    panel.wait_for("clipboard")
    sent = _clipboard(panel)
    assert "aa-own" in sent and "--" in sent
    painted = panel.raw.decode("utf-8", "replace")
    bare = ["SEKRETTYPED", *(secret.bare for secret in secrets)]
    assert not [text for text in bare if text in painted or text in sent or text in panel.text]
