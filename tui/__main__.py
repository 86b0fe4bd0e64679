"""The entry point: chooses the front end before anything of Textual is imported."""

import os
import sys

COMMANDS = frozenset(
    {
        "launch",
        "plan",
        "list",
        "status",
        "logs",
        "stop",
        "wait",
        "drain",
        "gpus",
        "cost",
        "session",
        "presets",
    }
    | {"rename", "tag", "untag", "note", "star", "unstar", "delete", "undelete"}
    | {"priority", "cancel"}
    | {"doctor", "prune", "guard", "fetched", "metrics"}
    | {"diagnose", "checkpoint"}
    | {"completion", "serve", "monitor", "attach", "shell", "service"}
    | {"host", "push", "fetch"}
)


def main() -> None:
    """Run the panel, or a headless command when one is named (`--no-ui` is then implied)."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could stand at its cursor
        from tui.cli.completion import answer

        answer()
    words = sys.argv[1:]
    if words and words[0] == "host-agent":  # started by ssh, on a rented machine
        from tui.agent.main import run_agent

        sys.exit(run_agent(words[1:]))
    if "--no-ui" in words or (
        words and (words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"))
    ):
        from tui.cli import run_command
        from tui.views.safe import safe_stream

        sys.stdout, sys.stderr = safe_stream(sys.stdout), safe_stream(sys.stderr)

        sys.exit(run_command([word for i, word in enumerate(words) if not _is_switch(words, i)]))
    from tui.panel.launch import open_panel

    sys.exit(open_panel(words))


def _is_switch(words: list[str], position: int) -> bool:
    # Behind a bare `--` everything belongs to somebody else's command.
    return words[position] == "--no-ui" and "--" not in words[:position]


if __name__ == "__main__":
    main()
