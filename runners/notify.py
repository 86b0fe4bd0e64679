"""Announce a run's ending or alert, or the machine's end, by the settings' command and webhook.

A short-lived process, begun by the run's supervisor; the outcome is an event of the run.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from runners.host.files import append_event, open_private
from runners.host.identity import host_name
from runners.host.run_in_time import run_in_time
from runners.model.errors import FresnelError
from runners.model.masking import mask_text
from runners.presets.reading.user_settings import NoticeKeys, read_settings
from runners.state.codec import read_outline
from runners.state.layout import RunDirectory, StateDirectory

COMMAND_S = 60.0


def announce(state: StateDirectory, run_id: str, kind: str, text: str) -> None:
    """Run the command and post to the webhook, if the settings ask for notices of this `kind`.

    It is about the machine where `run_id` is empty.
    """
    run = state.run(run_id)
    events = run.supervisor_events if run_id else state.host / "notices.jsonl"
    try:
        wanted = read_settings().notices
    except FresnelError as error:
        append_event(events, "notice", about=kind, result=str(error))
        return
    if kind not in wanted.on:
        return
    text = mask_text(text)
    name = _name(run) if run_id else "machine"
    facts = {"kind": kind, "run": run_id, "name": name, "text": text, "host": host_name()}
    if wanted.command:
        result = _run_command(run.path if run_id else state.host, wanted, facts)
        append_event(events, "notice", about=kind, by="command", result=result)
    if wanted.webhook:
        from runners.host.webhook import post_json  # HTTP is a third of a guard

        content = notification(kind, text, name, run=run_id, sent_at=time.time())
        done = post_json(wanted.webhook, content)
        result = done.answer if done.tries == 1 else f"{done.answer} at try {done.tries}"
        append_event(events, "notice", about=kind, by="webhook", result=result)


def _run_command(folder: Path, wanted: NoticeKeys, facts: dict[str, str]) -> str:
    environment = {
        **os.environ,
        **{f"FRESNEL_NOTICE_{name.upper()}": value for name, value in facts.items()},
    }
    try:
        with open_private(folder / "notices.log") as log:
            done = run_in_time(
                ["/bin/sh", "-c", wanted.command],
                COMMAND_S,
                stdout=log,
                stderr=log,
                env=environment,
            )
    except subprocess.TimeoutExpired:
        return f"killed after {COMMAND_S:g} s"
    except OSError as error:
        return str(error)
    return f"exit code {done.returncode}"


def notification(
    kind: str, text: str, name: str, sent_at: float, **facts: object
) -> dict[str, object]:
    """What a webhook is sent; Slack reads `text`, Discord `content`; `sent_at` in unix seconds."""
    host, text = host_name(), mask_text(text)
    sentence = f"{name} on {host}: {text}"
    return {
        "kind": kind,
        "name": name,
        "host": host,
        **facts,
        "message": text,
        "text": sentence,
        "content": sentence,
        "time": sent_at,
    }


def _name(run: RunDirectory) -> str:
    plan = read_outline(run)
    return (plan.spec.name if plan else "") or run.id


def main() -> None:
    """Announce what the command line names: state folder, run, kind and text."""
    root, run_id, kind, text = sys.argv[-4:]
    announce(StateDirectory(Path(root)), run_id, kind, text)
