"""The entry point: chooses the front end before anything of Textual is imported."""

import gc
import os
import sys

from runners.model.trailing_command import split_at_dashes


def main() -> None:
    """Run the panel, or a headless command when one is named (`--no-ui` is then implied)."""
    _open_closed_streams()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could stand at its cursor
        from tui.cli.completion import answer

        answer()
    argv = sys.argv[1:]
    if argv[:1] == ["host-agent"]:  # started by ssh, on a rented machine
        gc.disable()  # as below
        from tui.agent.main import run_agent

        sys.exit(run_agent(argv[1:]))
    named = bool(argv) and not argv[0].startswith("-")
    mine, command = split_at_dashes(argv)
    if named or "--no-ui" in mine or argv[:1] in (["-h"], ["--help"], ["--version"]):
        gc.disable()  # until the command is loaded: what is imported is no garbage
        from tui.cli import run_command
        from tui.views.safe import safe_stream

        sys.stdout, sys.stderr = safe_stream(sys.stdout), safe_stream(sys.stderr)

        sys.exit(run_command([*(word for word in mine if word != "--no-ui"), *command]))
    from tui.panel.opening import open_panel

    sys.exit(open_panel(argv))


def _open_closed_streams() -> None:
    """Give a closed standard stream (`>&-`) the null device, or some file would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


if __name__ == "__main__":
    main()
