"""The machine is being shut down, as by its power button: the run gets its ladder in the time left.

systemd sends SIGTERM to whatever still runs, and SIGKILL 90 s later (DefaultTimeoutStopSec,
systemd-system.conf(5)). A provider's power button leaves less: Google's about 30 s ("Spot VMs").
Whoever sends a supervisor SIGTERM at another time ends it: the run is adopted.
"""

import os
import signal
import time
from collections.abc import Callable

from runners.host.clock import moment_now
from runners.host.files import append_event, read_json
from runners.lifecycle.supervisor.pollers import NEVER
from runners.lifecycle.supervisor.queue_wait import notify
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, intent_fields

TEXT = "the machine is being shut down"
_LEFT_S = 85.0
_LEFT_AT_S = {"Google Cloud": 25.0}
"""Until everything is killed, less what it takes to record the end; by the session's provider."""
_ANSWERS_WITHIN_S = 2.0


class ShutdownNotice:
    """Asks for a stop, once, when SIGTERM comes while systemd stops the machine."""

    def __init__(self, run: RunDirectory, request: Callable[[IntentFields], None]) -> None:
        self._run = run
        self._request = request
        self._has_come = self._is_asked = False
        signal.signal(signal.SIGTERM, self._receive)

    def poll(self, now: float) -> float:
        """Ask for the stop, if the signal has come."""
        if self._has_come and not self._is_asked:
            self._is_asked = True
            session = read_json(self._run.home.session) or {}
            left = _LEFT_AT_S.get(str(session.get("provider")), _LEFT_S)
            wall, boot, up = moment_now()
            ends = (wall + left, boot, None if up is None else up + round(left * 1e9))
            asked = intent_fields(read_json(self._run.stop) or {"time": time.time(), "by": TEXT})
            ending = Ending(cause=EndingCause.PREEMPTED, detail=TEXT)
            if self._run.stop.exists():
                ending = asked["ending"]
            append_event(self._run.supervisor_events, "alert", text=TEXT)
            notify(self._run, "preempted", TEXT)
            self._request({**asked, "ending": ending, "deadline": ends})
        return NEVER

    def close(self) -> None:
        """The program has ended: from now on the signal ends this process, as before."""
        if not self._has_come:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _receive(self, *_: object) -> None:
        if is_stopping():
            self._has_come = True
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def is_stopping() -> bool:
    """True while systemd shuts this machine down."""
    import subprocess  # dozens of supervisors live for days without it

    try:
        answer = subprocess.run(
            ["systemctl", "is-system-running"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ANSWERS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == b"stopping"
