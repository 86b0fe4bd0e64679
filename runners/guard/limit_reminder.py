"""Says in time that the limit of a run's Slurm job comes near: at its half, and an hour before."""

import json
from collections.abc import Iterator
from contextlib import suppress

from runners.health.signs import Outlook
from runners.host.files import append_event, read_tail
from runners.model.quantities import duration_text
from runners.state.deadline import JOB_LIMIT
from runners.state.jobs import read_job
from runners.state.layout import RunDirectory

CONDITION = "time limit"
_HOUR_S = 3600.0
_TAIL_BYTES = 1 << 20


class LimitReminder:
    """The reminders of a run: what was said stands in its events, for the next watcher too."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._given = set(_given(directory))

    def due(self, outlook: Outlook | None, now: float) -> str:
        """What is to be said at `now` (unix seconds), noted as said from then on; empty: nothing.

        Each of the two once for each time that the job began.
        """
        note = read_job(self._directory)
        if outlook is None or outlook.deadline.limit != JOB_LIMIT:
            return ""
        left = outlook.deadline.in_s
        if note is None or note.began is None or left <= 0:
            return ""
        half = (now - note.began + left) / 2
        # Of a short limit its half is all that is said.
        moments = {"half": half, "hour": min(half, _HOUR_S)}
        due = {(name, note.began) for name, before in moments.items() if left <= before}
        if not due - self._given:
            return ""
        text = _text(outlook, self._directory.id)
        for name, began in due - self._given:
            events = self._directory.supervisor_events
            append_event(events, "alert", text=text, condition=CONDITION, limit=name, began=began)
        self._given |= due
        return text


def _text(outlook: Outlook, run: str) -> str:
    text = f"ends in {duration_text(outlook.deadline.in_s)} at {JOB_LIMIT}"
    if outlook.fraction is not None:
        text += f", {100 * outlook.fraction:.0f} % done"
    if outlook.eta_s is None or outlook.eta_s <= outlook.deadline.in_s:
        return text
    if not outlook.deadline.is_final:
        return f"{text}, and begins anew"
    more = max(1, round((outlook.eta_s - outlook.deadline.in_s) * 1.1 / 60))
    return (
        f"{text}, needs {duration_text(outlook.eta_s)} more: `fresnel-tui extend {run} {more}m` "
        "(in the panel +, an hour) raises it, where Slurm allows that"
    )


def _given(directory: RunDirectory) -> Iterator[tuple[str, float]]:
    for line in read_tail(directory.supervisor_events, _TAIL_BYTES).splitlines():
        if CONDITION.encode() in line:
            with suppress(ValueError, KeyError, TypeError):
                event = json.loads(line)
                if event["condition"] == CONDITION:
                    yield str(event["limit"]), float(event["began"])
