"""What the panel does about money and the guard: use cases in threads, each noted as a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from runners.cost.sessions import Session
from runners.guard.request import GuardRequest, request_flags
from runners.host.clock import moment_now
from runners.state.layout import StateDirectory
from tui.panel.background import in_thread
from tui.panel.command_log import CommandLog
from tui.snapshot.feed import SnapshotFeed
from tui.views.money.guard_text import consequences, postponed_text, too_late_text
from tui.views.money.money_text import ended_text


class MoneyCommands:
    """Sessions, budgets, the guard. What became of them is said by `app`; `done` is called after
    each.
    """

    def __init__(
        self, app: App[Any], state: StateDirectory, feed: SnapshotFeed, log: CommandLog
    ) -> None:
        self.log = log
        self.done: Callable[[], None] = lambda: None
        self._app = app
        self._state = state
        self._feed = feed

    def start_session(self, start: Callable[[], Session], arguments: list[str]) -> None:
        """Open a session as `start` does."""

        def do() -> None:
            session = start()
            self._note("session", "start", *arguments)
            self._notify(f"session started: {session.describe()}")

        self._in_thread(do)

    def change_budget(self, amount: str) -> None:
        """Give the open session another budget."""
        from runners.cost.sessions import change_budget

        def do() -> None:
            session = change_budget(self._state, amount)
            self._note("session", "budget", "--budget", amount)
            self._notify(f"budget of the session: ${session.budget}")

        self._in_thread(do)

    def end_session(self) -> None:
        """End the open session, and say what it came to."""
        from runners.cost.sessions import end_session

        def do() -> None:
            session = end_session(self._state)
            self._note("session", "end")
            self._notify(ended_text(session), timeout=15)

        self._in_thread(do)

    def set_guard(self, request: GuardRequest) -> None:
        """Set the guard by this wish, and start it."""
        from runners.cost.sessions import read_session
        from runners.guard.request import rule_from
        from runners.guard.rule import set_rule
        from runners.guard.spawn import ensure_guard
        from runners.lifecycle.launch.preconditions import refuse_untrusted

        def do() -> None:
            refuse_untrusted(self._state)
            session = read_session(self._state)
            rule = rule_from(request, None if session is None else session.budget)
            set_rule(self._state, rule)
            ensure_guard(self._state)
            self._note("guard", "set", *request_flags(request))
            self._notify("\n".join(["guard set", *consequences(self._state, rule)]), timeout=10)

        self._in_thread(do)

    def postpone_guard(self, length: str) -> None:
        """Let the guard hold back for so long from now; 0 lets it go on."""
        from runners.guard.request import length_of
        from runners.guard.rule import postpone, read_guard

        def do() -> None:
            seconds = length_of("postpone", length, may_be_nothing=True) or 0.0
            postpone(self._state, seconds)
            self._note("guard", "postpone", length)
            late = too_late_text(self._state)
            held = postponed_text(read_guard(self._state), moment_now())
            self._notify(late or held or "the guard goes on")

        self._in_thread(do)

    def lift_guard(self) -> None:
        """Take the guard away."""
        from runners.guard.rule import lift

        def do() -> None:
            late = too_late_text(self._state)
            was_set = lift(self._state)
            self._note("guard", "off")
            self._notify(late or ("the guard is off" if was_set else "no guard was set"))

        self._in_thread(do)

    def _in_thread(self, do: Callable[[], object]) -> None:
        def then_done() -> None:
            do()
            self._app.call_later(self.done)

        in_thread(self._app, self._feed, then_done)

    def _note(self, *arguments: str) -> None:
        self._app.call_later(self.log.note, list(arguments))

    def _notify(self, text: str, timeout: float = 6) -> None:
        self._app.call_later(lambda: self._app.notify(text, timeout=timeout, markup=False))
