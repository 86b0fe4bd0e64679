"""What the run table's keys do to the chosen runs, asked for first where anything could be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import App

from runners.model.run import Run
from runners.model.states import State
from tui.panel.label_commands import LabelCommands
from tui.panel.run_commands import RunCommands
from tui.panel.screens.dialogs import LineScreen, QuestionScreen

_NAMED = 6


class RunActions:
    """Asks, then does: stop several, delete, label, and order the queue."""

    def __init__(self, app: App[object], runs: RunCommands, labels: LabelCommands) -> None:
        self._app = app
        self._runs = runs
        self._labels = labels

    def stop(self, runs: Sequence[Run], done: Callable[[], None]) -> None:
        """Stop several runs, queued ones before they start; asked once for all of them."""
        live = [run for run in runs if run.is_live]
        if not live:
            self._tell("these runs have ended already")
            return
        queued = sum(run.state is State.QUEUED for run in live)
        words = [_names(live), "", "Each by its own stop ladder, all at once."]
        if queued:
            words.append(f"{queued} of them only wait: they are cancelled.")
        self._confirm(
            f"Stop {len(live)} runs?",
            "\n".join(words),
            "Stop them",
            lambda: self._runs.stop_all(live),
            done,
        )

    def kill(self, runs: Sequence[Run]) -> None:
        """End runs by SIGKILL now; nothing is saved."""
        live = [run for run in runs if run.is_live]
        if not live:
            self._tell("these runs have ended already" if runs else "no run is selected")
            return
        words = f"{_names(live)}\n\nSIGKILL at once: no checkpoint is written, and what was done"
        self._confirm(
            f"Kill {_number(live)}?",
            f"{words} since the newest one is lost.",
            "Kill",
            lambda: self._runs.stop_all(live, force=True),
        )

    def delete(self, runs: Sequence[Run], done: Callable[[], None]) -> None:
        """Move ended runs to the trash."""
        live = [run for run in runs if run.is_live]
        ended = [run for run in runs if not run.is_live]
        if not ended:
            self._tell("a live run is never deleted: stop it first" if live else _NONE)
            return
        words = _names(ended)
        words += f"\n\n{len(live)} live ones stay." if live else ""
        words += "\n\nFor seven days, u here or `fresnel-tui undelete` brings them back."
        self._confirm(
            f"Delete {_number(ended)}?",
            words,
            "Delete",
            lambda: self._labels.delete(ended),
            done,
        )

    def undo(self) -> None:
        """Bring back what was deleted last."""
        self._labels.undelete_last()

    def rename(self, run: Run) -> None:
        """Give a run another name."""
        hint = f"empty for {run.plan.spec.name}, as it was launched" if run.plan else "its new name"
        self._ask(f"Rename {run.name}", run.name, hint, lambda text: self._labels.rename(run, text))

    def tag(self, runs: Sequence[Run]) -> None:
        """Change the tags of one run, or add and take tags of several."""
        if len(runs) == 1:
            before = runs[0].labels.tags
            self._ask(
                f"Tags of {runs[0].name}",
                " ".join(before),
                "words, with blanks between them",
                lambda text: self._labels.tag(
                    runs,
                    [word for word in text.split() if word not in before],
                    [word for word in before if word not in text.split()],
                ),
            )
            return
        self._ask(
            f"Tags of {len(runs)} runs",
            "",
            "words are added; -word is taken away",
            lambda text: self._labels.tag(
                runs,
                [word for word in text.split() if not word.startswith("-")],
                [word[1:] for word in text.split() if word.startswith("-")],
            ),
        )

    def note(self, run: Run) -> None:
        """Write a note on a run."""
        from tui.panel.screens.note import NoteScreen  # a text area: few runs get a note

        def answered(text: str | None) -> None:
            if text is not None and text != run.labels.note:
                self._labels.note(run, text)

        self._app.push_screen(NoteScreen(run), answered)

    def star(self, runs: Sequence[Run]) -> None:
        """Star runs, or take the star away where all have one."""
        self._labels.star(runs, not all(run.labels.starred for run in runs))

    def priority(self, runs: Sequence[Run], by: int) -> None:
        """Let queued runs go before others, or after them."""
        queued = [run for run in runs if run.state is State.QUEUED]
        if not queued:
            self._tell("only a queued run has a priority to change")
        for run in queued:
            self._labels.priority(run, (run.plan.spec.priority if run.plan else 0) + by)

    # ---- asking

    def _ask(self, title: str, value: str, hint: str, then: Callable[[str], object]) -> None:
        def answered(text: str | None) -> None:
            if text is not None and text != value:
                then(text)

        kind = title.partition(" ")[0]
        self._app.push_screen(LineScreen(kind, f"{title}: {hint}", value), answered)

    def _confirm(self, title: str, text: str, yes: str, *then: Callable[[], None]) -> None:
        def answered(wanted: bool | None) -> None:
            if wanted:
                for do in then:
                    do()

        self._app.push_screen(QuestionScreen(title, text, yes), answered)

    def _tell(self, words: str) -> None:
        self._app.notify(words, timeout=4, markup=False)


_NONE = "no run is selected"


def _number(runs: Sequence[Run]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


def _names(runs: Sequence[Run]) -> str:
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return ", ".join(run.name for run in runs[:_NAMED]) + more
