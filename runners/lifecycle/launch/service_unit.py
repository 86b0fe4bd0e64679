"""systemd units: one that brings everything back after a boot, and classic ones that own a run.

Facts: systemd.unit(5), systemd.service(5), loginctl(1) `enable-linger`.
"""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from runners.host.helpers import ROOT
from runners.model.plan import LaunchPlan

NAME = "fresnel-tui.service"


def unit_folder(system: bool) -> Path:
    """Where units of the machine, or of this user, belong."""
    if system:
        return Path("/etc/systemd/system")
    return Path.home() / ".config" / "systemd" / "user"


def boot_unit(state_root: Path, user: str | None) -> str:
    """The unit that brings runs, queue, guard and session back after a boot.

    `user` is whom the machine's own systemd runs it as; None in the user's own systemd.
    """
    owner = [f"User={user}"] if user else []
    return _unit(
        {
            "Description": "fresnel-tui: guard, queue and runs that survive a boot",
            "After": "network-online.target",
        },
        [
            "Type=oneshot",
            # What it starts lives in scopes and sessions of its own and must not end with it.
            "RemainAfterExit=yes",
            "KillMode=process",
            *owner,
            f"Environment=FRESNEL_STATE_DIR={_quoted(str(state_root))}",
            f"WorkingDirectory={ROOT}",
            f"ExecStart={_command_line([sys.executable, '-m', 'tui', 'service', 'boot'])}",
        ],
        "multi-user.target" if user else "default.target",
    )


def run_unit(plan: LaunchPlan, environment: Mapping[str, str], user: str | None) -> str:
    """A classic unit that runs exactly the plan's command, for those who want systemd to own it."""
    stop_s = round(sum(rung.wait_s for rung in plan.spec.stop.ladder))
    # A stop file means nothing to systemd, so the first real signal is used.
    first = next((rung.how for rung in plan.spec.stop.ladder if rung.how != "stop-file"), "SIGTERM")
    restart = ["Restart=on-failure", f"RestartSec={max(1, round(plan.spec.restart.backoff_s))}s"]
    log = Path(plan.working_directory) / f"{plan.spec.name}.log"
    return _unit(
        {
            "Description": f"{plan.spec.name} (preset {plan.spec.preset})",
            "After": "network-online.target",
        },
        [
            "Type=simple",
            *([f"User={user}"] if user else []),
            f"WorkingDirectory={plan.working_directory}",
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
            f"ExecStart={_command_line(plan.argv)}",
            *(restart if plan.spec.restart.times else ["Restart=no"]),
            f"KillSignal={first}",
            f"TimeoutStopSec={stop_s}s",
            f"StandardOutput=append:{log}",
            f"StandardError=append:{log}",
        ],
        "multi-user.target" if user else "default.target",
    )


def _unit(head: Mapping[str, str], service: list[str], wanted_by: str) -> str:
    lines = ["[Unit]", *(f"{key}={value}" for key, value in head.items()), "", "[Service]"]
    lines += [*service, "", "[Install]", f"WantedBy={wanted_by}"]
    return "\n".join(lines) + "\n"


def _command_line(argv: "list[str] | tuple[str, ...]") -> str:
    # systemd expands % and $ itself, and reads quotes much like a shell.
    return " ".join(shlex.quote(word).replace("%", "%%").replace("$", "$$") for word in argv)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
