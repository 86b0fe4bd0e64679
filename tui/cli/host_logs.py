"""`logs -f --host`: a run's output over there, to the last byte, over broken lines."""

import threading

from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.link import Link, LinkState, LinkStatus, link_text
from runners.places.ssh.output_mirror import RemoteOutput
from runners.places.ssh.ssh import Ssh, Trouble
from tui.cli.output import echo
from tui.cli.remote_printer import RemotePrinter

_NEEDS_YOU = (Trouble.KEY_CHANGED, Trouble.LOGIN, Trouble.NO_AGENT)


class _Follower:
    """Copies one run's output to stdout, and says when the line is down, once."""

    def __init__(self, ssh: Ssh, run: str, lines: int | None) -> None:
        self.over = threading.Event()
        self.failure: FresnelError | OSError | None = None
        self._was_down = False
        self._printer = RemotePrinter(ssh.host.name, whole=False, is_log=True)
        self._output = RemoteOutput(run, self._write, lines=lines)
        self.link = Link(ssh, self._changed)
        self.link.subscribe(self)

    def request(self) -> dict[str, object]:
        """What to ask for after a break."""
        return self._output.request()

    def take(self, frame: object) -> int:
        """Take in an answer; a refusal ends it all."""
        try:
            taken = self._output.take(frame)  # type: ignore[arg-type]
        except (FresnelError, OSError) as error:
            self.failure = error
            self.over.set()
            return 0
        if self._output.is_over:
            self.over.set()
        return taken

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, and all of it was copied."""
        return self._output.is_over

    def _write(self, data: bytes, skipped: int, restarted: bool) -> None:
        self._printer.take(1, data)

    def _changed(self, status: LinkStatus) -> None:
        if status.state is LinkState.DOWN:
            if status.trouble in _NEEDS_YOU:
                self.failure = FresnelError(status.reason, status.hint)
                self.over.set()
            elif not self._was_down:
                echo(link_text(status))
            self._was_down = True
        elif status.state is LinkState.UP and self._was_down:
            self._was_down = False
            echo(f"{self.link.ssh.host.name} is connected again")


def follow_remotely(ssh: Ssh, run: str, lines: int | None) -> int:
    """Print the output of a run on another machine until it has ended."""
    follower = _Follower(ssh, run, lines)
    follower.link.start()
    try:
        while not follower.over.wait(0.5):
            pass
    finally:
        follower.link.stop()
    if follower.failure is not None:
        raise follower.failure
    return ExitCode.DONE
