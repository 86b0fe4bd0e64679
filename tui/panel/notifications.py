"""What is new between two snapshots and worth a notice: runs that ended, alerts that came."""

from collections import Counter
from collections.abc import Collection, Iterable
from time import monotonic
from typing import Any, Literal, NamedTuple

from textual.app import App
from textual.notifications import Notification as Shown
from textual.notifications import Notify

from runners.host.clock import moment_now
from runners.model.run import Run
from runners.model.run_ids import by_names
from runners.model.states import State
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import duration

Severity = Literal["information", "warning", "error"]
_SEVERITIES: dict[str, Severity] = {
    "failed": "error",
    "lost": "error",
    "unseen": "warning",
    "alert": "warning",
    "preempted": "error",
}


_ENDINGS = frozenset(str(state) for state in State)
_LOUDEST: tuple[Severity, ...] = ("error", "warning", "information")
_BRIEFEST_S = 0.1
_MOST_SHOWN = 8
"""Notices at once: a ninth stands alone."""
MOST_NOTICES = 3
"""Of so many things at once each is told by itself, and on the desktop no more of them."""


class Notification(NamedTuple):
    """One thing to tell: its kind (an ending, or alert), the run's name, and what happened.
    `group` is the sweep or group of a run that ended.
    """

    kind: str
    name: str
    text: str
    group: str = ""

    @property
    def severity(self) -> Severity:
        """How loud it is."""
        return _SEVERITIES.get(self.kind, "information")


def changes_between(
    before: PanelSnapshot | None, after: PanelSnapshot, wanted: Collection[str]
) -> list[Notification]:
    """What `after` has and `before` had not; nothing of the first snapshot is new."""
    if before is None:
        return []
    known = {view.run.id: view for view in before.runs}
    found = _end_of_machine(before, after)
    for view in after.runs:
        run, old = view.run, known.get(view.run.id)
        if old is None:
            continue
        if old.run.is_live and not run.is_live:
            name, ending = run.name or run.id, _ending(run, after.time)
            group = run.plan.spec.group if run.plan else ""
            found.append(Notification(str(run.state), name, ending, group))
        seen = {alert.time for alert in old.alerts}
        found += [
            Notification("alert", run.name or run.id, new_alert.text)
            for new_alert in view.alerts
            if new_alert.time not in seen
        ]
    return summed_up(notice for notice in found if notice.kind in wanted)


def summed_up(found: Iterable[Notification]) -> list[Notification]:
    """The same with one notice for runs of a group that ended together, and for many of none."""
    notices: list[Notification] = []
    ended: dict[str, list[Notification]] = {}
    for notice in found:
        if notice.kind in _ENDINGS:
            ended.setdefault(notice.group, []).append(notice)
        else:
            notices.append(notice)
    for group, endings in ended.items():
        alone = len(endings) <= (1 if group else MOST_NOTICES)
        notices += endings if alone else [_summary(group, endings)]
    return notices


def _summary(group: str, notices: list[Notification]) -> Notification:
    """How many ended how, and of the first that failed why."""
    counts = Counter(notice.kind for notice in notices).most_common()
    states = ", ".join(f"{count} {kind}" for kind, count in counts)
    text = (
        f"{len(notices)} runs ended: {states}"
        if counts[1:]
        else f"{len(notices)} runs {counts[0][0]}"
    )
    worst = min(notices, key=lambda notice: _LOUDEST.index(notice.severity))
    if worst.severity == "error":
        text += f"\n{worst.name}: {worst.text}"
    return Notification(worst.kind, group or "runs", text)


def _end_of_machine(before: PanelSnapshot, after: PanelSnapshot) -> list[Notification]:
    """That the provider takes this machine away, when it is new."""
    old = None if before.guard is None else before.guard.preemption
    new = None if after.guard is None else after.guard.preemption
    if new is None or (old is not None and old.action == new.action):
        return []
    return [Notification("preempted", after.host, new.describe(moment_now()))]


def _ending(run: Run, now: float) -> str:
    ending = f"{run.state} after {duration(run.seconds(now))}" if run.started else str(run.state)
    return f"{ending}: {by_names(run.reason)}" if run.reason else ending


def show_notification(app: App[Any], notice: Notification) -> None:
    """Tell it on the screen."""
    app.notify(notice.text, title=notice.name, severity=notice.severity, timeout=6, markup=False)


def notify_error(app: App[Any], text: str) -> None:
    """Say that something was not done, and why."""
    app.notify(by_names(text), title="not done", severity="error", timeout=10, markup=False)


class _Notice(Shown):
    """A notice that may be over before it is shown, where the panel had no time or a clock was set.

    Textual would set a timer for less than no time, which holds up the panel for ever.
    """

    @property
    def time_left(self) -> float:
        """Seconds until it goes; never none."""
        return max(_BRIEFEST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        """Whether it is over."""
        return super().time_left <= 0


def limit_notices(app: App[Any]) -> None:
    """Show no notice again right behind itself, and none beside many others.

    A key that is held repeats thirty times a second: each notice makes all keys slower.
    """
    clear = app.clear_notifications
    shown: list[tuple[tuple[object, ...], float]] = []

    def notify(message: str, *, timeout: float | None = None, **how: Any) -> None:
        now, seconds = monotonic(), app.NOTIFICATION_TIMEOUT if timeout is None else timeout
        notice = (message, how.get("title"), how.get("severity"))
        shown[:] = [each for each in shown if each[1] > now]
        # The newest stands lowest: what was told before it may not be so any more.
        if shown[-1:] and shown[-1][0] == notice and shown[-1][1] > now + seconds / 2:
            return
        if len(shown) >= _MOST_SHOWN:
            app.call_later(clear)  # behind those that are under way
            shown.clear()
        shown.append((notice, now + seconds))
        app.post_message(Notify(_Notice(message, timeout=seconds, **{"markup": True, **how})))

    def clear_notifications() -> None:
        shown.clear()
        clear()

    app.notify = notify  # type: ignore[method-assign]
    app.clear_notifications = clear_notifications  # type: ignore[method-assign]
