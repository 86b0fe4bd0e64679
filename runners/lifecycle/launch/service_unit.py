"""systemd units: one that brings everything back after a boot, and classic ones that own a run.

Facts: systemd.unit(5), systemd.service(5), loginctl(1) `enable-linger`.
"""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from runners.host.files import home_folder
from runners.host.helpers import ROOT
from runners.model.parameters import flagged
from runners.model.plan import LaunchPlan

NAME = "fresnel-tui.service"
_FREE_PORT = 'import socket as s; p = s.socket(); p.bind(("", 0)); print(p.getsockname()[1])'


def unit_folder(system: bool) -> Path:
    """Where units of the machine, or of this user, belong."""
    if system:
        return Path("/etc/systemd/system")
    return home_folder() / ".config" / "systemd" / "user"


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
    """A classic unit that runs the plan's command, for those who want systemd to own it.

    It has a folder of its own instead of a run's, made at each start, goes on from its newest
    checkpoint where the preset says how, and takes a port that is free then.
    """
    stop_s = round(sum(rung.wait_s for rung in plan.spec.stop.ladder))
    # A stop file means nothing to systemd, so the first real signal is used.
    first = next((rung.how for rung in plan.spec.stop.ladder if rung.how != "stop-file"), "SIGTERM")
    rule = plan.spec.restart
    fails_again = rule.times and "failure" in rule.on
    restart = ["Restart=on-failure", f"RestartSec={max(1, round(plan.spec.restart.backoff_s))}s"]
    folder = Path(plan.working_directory) / f"{plan.spec.name}-service"

    def placed(text: str) -> str:
        return text.replace(plan.directory, str(folder))

    port = "" if plan.port is None else str(plan.port)
    fixed = {name: placed(value) for name, value in environment.items()}
    chosen = [name for name, value in fixed.items() if port and value == port]
    argv = [*map(placed, plan.argv), *_goes_on(plan)]
    # systemd's own PATH lacks an environment's programs, such as ninja for compiled kernels.
    path = f"{Path(plan.argv[0]).parent}:/usr/local/bin:/usr/bin:/bin"
    return _unit(
        {
            "Description": f"{plan.spec.name} (preset {plan.spec.preset})",
            "After": "network-online.target",
            "Wants": "network-online.target",
        },
        [
            "Type=simple",
            *([f"User={user}"] if user else []),
            f"WorkingDirectory={plan.working_directory}",
            *([] if "PATH" in fixed else [f"Environment={_quoted(f'PATH={path}')}"]),
            *(
                f"Environment={_quoted(f'{name}={value}')}"
                for name, value in fixed.items()
                if name not in chosen
            ),
            f"ExecStartPre={_command_line(['/bin/mkdir', '-p', str(folder)])}",
            f"ExecStart={_command_line(_on_free_port(argv, port, chosen))}",
            *(restart if fails_again else ["Restart=no"]),
            f"KillSignal={first}",
            f"TimeoutStopSec={stop_s}s",
            f"StandardOutput=append:{folder}.log",
            f"StandardError=append:{folder}_error.log",
        ],
        "multi-user.target" if user else "default.target",
    )


def _goes_on(plan: LaunchPlan) -> tuple[str, ...]:
    """The arguments by which the program finds its own newest checkpoint, or begins."""
    resume = plan.spec.resume
    if resume is None or not resume.auto:
        return ()
    flag = next(part.flag for part in plan.spec.parameters if part.name == resume.parameter)
    return tuple(flagged(flag, resume.auto))


def _on_free_port(argv: list[str], port: str, variables: list[str]) -> list[str]:
    """The command as it is, or by a shell that puts a port which is free then where `port` was."""
    if not port or not (variables or any(port in word for word in argv)):
        return argv
    spelled = ['"$port"'.join(map(shlex.quote, word.split(port))) for word in argv]
    exports = [f'export {name}="$port"' for name in variables]
    found = f"port=$({shlex.join([sys.executable, '-c', _FREE_PORT])})"
    return ["/bin/sh", "-c", "; ".join([found, *exports, f"exec {' '.join(spelled)}"])]


def _unit(head: Mapping[str, str], service: list[str], wanted_by: str) -> str:
    lines = ["[Unit]", *(f"{key}={value}" for key, value in head.items()), "", "[Service]"]
    lines += [*service, "", "[Install]", f"WantedBy={wanted_by}"]
    return "\n".join(lines) + "\n"


def _command_line(argv: "list[str] | tuple[str, ...]") -> str:
    # systemd expands % and $ itself, and reads quotes much like a shell.
    # It also reads backslashes, which a shell leaves alone between single quotes.
    quoted = (shlex.quote(word).replace("\\", "\\\\") for word in argv)
    return " ".join(word.replace("%", "%%").replace("$", "$$") for word in quoted)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
