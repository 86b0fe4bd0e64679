"""What keys do to runs on other machines: asked for first, done there through the link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from textual.app import App

from runners.places.run_row import RunRow
from runners.places.ssh.link import RemoteRequest
from runners.state.layout import StateDirectory
from tui.panel.command_log import CommandLog
from tui.panel.remote.links import LinkedHost
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.panel.screens.host_words import HostWordsScreen
from tui.views.safe import safe_cell

_TOLD = 300
_NAMED = 6
_MOST_CURVES = 32


class RunElsewhere(NamedTuple):
    """A run, and the machine that it is on."""

    host: LinkedHost
    run: RunRow

    @property
    def name(self) -> str:
        """What it is called."""
        return self.run.name or self.run.id


class RemoteActions:
    """The keys of the run table for runs that are all on one other machine."""

    def __init__(
        self,
        app: App[Any],
        state: StateDirectory,
        log: CommandLog,
        letters: Callable[[], Mapping[str, str]],
    ) -> None:
        """`letters` tells the letter of each live run of all other machines."""
        self._app = app
        self._state = state
        self._noted = log
        self._letters = letters
        self._shown: dict[str, Callable[[Sequence[RunElsewhere]], None]] = {
            "stop": self.stop,
            "stop_group": self.stop,
            "kill": lambda runs: self.stop(runs, kill=True),
            "again": lambda runs: self._launch(runs[0], "--again"),
            "resume": lambda runs: self._launch(runs[0], "--resume"),
            "details": lambda runs: self._read(["status", runs[0].run.id], runs[0]),
            "remedy": self._why,
            "metrics": self._metrics,
            "stacks": lambda runs: self._read(["stacks", runs[0].run.id], runs[0]),
            "compare": self._compare,
            "rename": self._rename,
            "tag": self._tag,
            "note": self._note,
            "star": self._star,
            "delete": self._delete,
        }
        self._elsewhere = {
            "pictures": "`fresnel-tui fetch {run} --host {host}` brings its pictures here",
            "copy_command": "its command stands in its details (Enter)",
            "sooner": "`fresnel-tui priority {run} N --host {host}` changes its place in the queue",
            "later": "`fresnel-tui priority {run} N --host {host}` changes its place in the queue",
        }

    def act(self, what: str, runs: Sequence[RunElsewhere]) -> None:
        """Do `what` to the runs, or say where it can be done."""
        do = self._shown.get(what)
        if do is not None:
            do(runs)
        elif words := self._elsewhere.get(what):
            self.say(words.format(run=runs[0].run.id, host=runs[0].host.name), seconds=8)

    # ---- ending and beginning

    def stop(self, runs: Sequence[RunElsewhere], kill: bool = False) -> None:
        """Ask, then stop them there."""
        live = [one for one in runs if one.run.is_live]
        if not live:
            words = "the selected run has ended" if len(runs) == 1 else "these runs have ended"
            self.say(f"{words} already")
            return
        host = live[0].host
        what = f"{names(live)} on {host.name}"
        if kill:
            what += "\nSIGKILL at once: what was done since the newest checkpoint is lost."
        elif len(live) == 1:
            kept = _kept(live[0]) or "none seen"
            what += f", {live[0].run.state}\nnewest checkpoint: {kept}"
        word = "Kill" if kill else "Stop"
        ids = [one.run.id for one in live]
        self._confirm(f"{word}?", what, word, host, [word.lower(), *ids])

    def _launch(self, one: RunElsewhere, flag: str) -> None:
        verb = "Launch again" if flag == "--again" else "Resume"
        what = f"{one.name} on {one.host.name}, as it was launched"
        if flag == "--resume":
            what = f"{one.name} on {one.host.name}, from {_kept(one) or 'its checkpoint'}"
        self._confirm(f"{verb}?", what, verb, one.host, ["launch", flag, one.run.id])

    def _delete(self, runs: Sequence[RunElsewhere]) -> None:
        ended = [one for one in runs if not one.run.is_live]
        if not ended:
            self.say("a live run is never deleted: stop it first")
            return
        host = ended[0].host
        words = f"{names(ended)} on {host.name}\n\nFor seven days `fresnel-tui undelete --host "
        ids = [one.run.id for one in ended]
        words += f"{host.name}` brings them back."
        self._confirm(f"Delete {len(ended)}?", words, "Delete", host, ["delete", *ids])

    # ---- labels

    def _rename(self, runs: Sequence[RunElsewhere]) -> None:
        one = runs[0]

        def answered(text: str | None) -> None:
            if text is not None and text != one.name:
                self.order(one.host, ["rename", one.run.id, *([text] if text else ["--reset"])])

        title = f"Rename {one.name} on {one.host.name}"
        self._app.push_screen(LineScreen(title, "its new name", one.name), answered)

    def _tag(self, runs: Sequence[RunElsewhere]) -> None:
        def answered(text: str | None) -> None:
            words = (text or "").split()
            taken = [word[1:] for word in words if word.startswith("-") and word[1:]]
            added = [word for word in words if not word.startswith("-")]
            for one in runs:
                if added:
                    self.order(one.host, ["tag", one.run.id, *added])
                if taken:
                    self.order(one.host, ["untag", one.run.id, *taken])

        have = " ".join(runs[0].run.tags) if len(runs) == 1 else ""
        words = "words are added; -word is taken away" + (f"; now: {have}" if have else "")
        title = f"Tags of {names(runs)} on {runs[0].host.name}"
        self._app.push_screen(LineScreen(title, words), answered)

    def _note(self, runs: Sequence[RunElsewhere]) -> None:
        one = runs[0]

        def answered(text: str | None) -> None:
            if text is not None and text != one.run.note:
                self.order(one.host, ["note", one.run.id, *([text] if text else ["--clear"])])

        title = f"Note on {one.name} on {one.host.name}"
        self._app.push_screen(LineScreen(title, "empty for none", one.run.note), answered)

    def _star(self, runs: Sequence[RunElsewhere]) -> None:
        word = "unstar" if all(one.run.starred for one in runs) else "star"
        self.order(runs[0].host, [word, *(one.run.id for one in runs)])

    # ---- reading

    def _why(self, runs: Sequence[RunElsewhere]) -> None:
        if runs[0].run.is_live:
            self.say("the selected run has not ended")
        else:
            self._read(["diagnose", runs[0].run.id], runs[0])

    def _compare(self, runs: Sequence[RunElsewhere]) -> None:
        if len(runs) < 2:
            self.say("mark the runs to compare with Space, two at least")
        else:
            self._read(["compare", *(one.run.id for one in runs)], runs[0])

    def _metrics(self, runs: Sequence[RunElsewhere]) -> None:
        from tui.panel.screens.host_metrics import HostMetricsScreen

        snapshot = getattr(self._app, "snapshot", None)
        told = [one.run for one in runs[:_MOST_CURVES]]
        self._app.push_screen(
            HostMetricsScreen(self._state, snapshot, runs[0].host, self._letters, told)
        )

    def _read(self, words: list[str], one: RunElsewhere) -> None:
        screen = HostWordsScreen(f"{words[0]}: {one.name} on {one.host.name}")
        self._app.push_screen(screen)
        one.host.do(words, screen.tell)

    # ---- carrying out

    def order(self, host: LinkedHost, words: list[str]) -> None:
        """Have a command done there, and what it came to be said; noted as it is done by hand."""
        self._noted.note([*words, "--host", host.name])

        def done(request: RemoteRequest) -> None:
            self.tell(request)
            host.older.renew(words)  # what a snapshot tells of is told anew without being asked

        host.do(words, done)

    def note(self, words: Sequence[str]) -> None:
        """Note a command that something here has done."""
        self._noted.note(words)

    def _confirm(self, title: str, text: str, yes: str, host: LinkedHost, words: list[str]) -> None:
        def answered(wanted: bool | None) -> None:
            if wanted:
                self.order(host, words)

        self._app.push_screen(QuestionScreen(title, text, yes), answered)

    def tell(self, done: RemoteRequest) -> None:
        """What a command came to, in a notice."""
        text = (done.errors or done.output).decode("utf-8", "replace")
        words = safe_cell(" ".join((done.problem or text).split()))[:_TOLD]
        bad = bool(done.problem) or done.exit_code != 0
        self.say(words or "done", bad, 6)

    def say(self, words: str, bad: bool = False, seconds: float = 4) -> None:
        """Tell somebody, in a notice."""
        self._app.notify(
            words, severity="error" if bad else "information", timeout=seconds, markup=False
        )


def _kept(one: RunElsewhere) -> str:
    return one.run.checkpoint.path.rpartition("/")[2] if one.run.checkpoint is not None else ""


def names(runs: Sequence[RunElsewhere]) -> str:
    """The runs' names, of many the first."""
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return ", ".join(one.name for one in runs[:_NAMED]) + more
