"""What keys do to the chosen runs, on whichever machine they are, and to processes of no run.

Asked for first where anything could be lost; done by the runs' place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from textual.app import App

from runners.lifecycle.control.end_process import OwnProcess, end_process, own_process
from runners.model.errors import FresnelError
from runners.model.gpus import GpuProcess
from runners.model.health import Condition
from runners.model.states import State
from runners.places.actions import (
    ApplyRemedy,
    ChangePriority,
    ChangeTags,
    DeleteRuns,
    ExtendRuns,
    PauseRuns,
    RenameRun,
    RunAction,
    StarRuns,
    StopRuns,
    WriteNote,
)
from runners.places.run_row import RunRow
from tui.panel.places import PlaceOfRuns
from tui.panel.run_commands import RunCommands
from tui.panel.screens.dialogs import LineScreen, QuestionScreen, if_answered
from tui.panel.widgets.runs import RunPane
from tui.snapshot.questions import Question
from tui.views.runs.run_view import RunView
from tui.views.safe import safe_cell

_NAMED = 6
_SHOWN = 6
_COMMAND = 60
_NONE = "no run is selected"
_NO_PRIORITY = "a queued run has a priority to change, a running Slurm job a time limit"
_ENDED = "these runs have ended already"

Rows = Sequence[RunRow]
ActionOfRuns = Callable[[tuple[str, ...]], RunAction]
"""What is done to runs, by the ids that their place knows them by."""


class RunActions:
    """Stop, delete, label and order the chosen runs."""

    def __init__(
        self,
        app: App[object],
        commands: RunCommands,
        places: PlaceOfRuns,
        pane: RunPane,
        again: Callable[[RunRow], object],
    ) -> None:
        """`again` opens a run in the launch form."""
        self._app = app
        self._commands = commands
        self._places = places
        self._pane, self._again = pane, again
        self._asked: set[OwnProcess] = set()
        """Processes of no run that were asked to end."""
        self._alone: dict[str, Callable[[], None]] = {
            # These choose their runs themselves.
            "stop": lambda: self.stop(pane.chosen, _NONE),
            "stop_group": self.stop_group,
            "stop_everything": self.stop_everything,
            "undo": commands.undelete_last,
            "remedy": self.remedy,
        }
        self._by_key: dict[str, Callable[[Rows], None]] = {
            "kill": self.kill,
            "pause": self.pause,
            "delete": self.delete,
            "rename": self.rename,
            "tag": self.tag,
            "note": self.note,
            "star": self.star,
            "fetch": self.fetch,
            "sooner": partial(self.prioritise, 1),
            "later": partial(self.prioritise, -1),
        }

    def act(self, what: str) -> None:
        """Do what a key of the run table stands for to the chosen runs."""
        alone = self._alone.get(what)
        if alone is not None:
            alone()
        elif self._pane.chosen:
            self._by_key[what](self._pane.chosen)
        else:
            self._notify(_NONE)

    # ---- ending

    def stop(self, rows: Rows, none: str) -> None:
        """Ask whether these runs shall stop: of one, with all that would be lost. Without any, say
        `none`.
        """
        if len(rows) > 1:
            self.stop_all(rows)
        elif not rows or not rows[0].is_live:
            self._notify("the selected run has ended already" if rows else none)
        else:
            self._places.view(rows[0], partial(self._ask_to_stop, rows[0]))

    def stop_of(self, machine: str, runs: Collection[str], none: str) -> None:
        """Ask whether live runs of a machine shall stop, by the ids they have there."""
        live = self._pane.lines.live.values()
        self.stop([row for row in live if row.machine == machine and row.run_id in runs], none)

    def _ask_to_stop(self, row: RunRow, view: RunView) -> None:
        from tui.panel.screens.stop import StopScreen

        def stop(how: str) -> None:
            self._commands.act(self._places.of(row), StopRuns((row.run_id,), how == "kill"))
            self._pane.forget_marks()

        self._app.push_screen(StopScreen(view, row.machine), if_answered(stop))

    def stop_all(self, rows: Rows) -> None:
        """Stop several runs, queued ones before they start; asked once for all of them."""
        live = [row for row in rows if row.is_live]
        if not live:
            self._notify(_ENDED)
            return
        queued = sum(row.state is State.QUEUED for row in live)
        lines = [_names(live), "", "Each by its own stop ladder, all at once."]
        if queued:
            lines.append(f"{queued} of them only wait: they are cancelled.")
        self._confirm(f"Stop {len(live)} runs?", "\n".join(lines), "Stop them", StopRuns, live)

    def stop_group(self) -> None:
        """Ask whether all live runs of the selected run's group shall stop."""
        row = self._pane.selected_row
        if row is None or not row.group:
            self._notify("the selected run is in no group")
            return
        live = self._pane.lines.live.values()
        self.stop_all([found for found in live if found.group == row.group])

    def stop_everything(self) -> None:
        """Ask whether every live run of this machine shall stop."""
        self.stop_all([row for row in self._pane.lines.live.values() if not row.machine])

    def kill(self, rows: Rows) -> None:
        """End runs by SIGKILL now; nothing is saved."""
        live = [row for row in rows if row.is_live]
        if not live:
            self._notify(_ENDED)
            return
        question = f"{_names(live)}\n\nSIGKILL at once: no checkpoint is written, and what was done"
        question += " since the newest one is lost."
        kill = partial(StopRuns, force=True)
        self._confirm(f"Kill {_number(live)}?", question, "Kill", kill, live)

    def pause(self, rows: Rows) -> None:
        """Pause runs where they are; where all are paused, let them go on."""
        running = [row for row in rows if row.state.has_program]
        if not running:
            self._notify("only a run whose program runs can be paused")
            return
        paused = not all(row.doing is Condition.PAUSED for row in running)
        self._act(running, lambda runs: PauseRuns(runs, paused))

    # ---- the trash

    def delete(self, rows: Rows) -> None:
        """Move ended runs to the trash."""
        ended = [row for row in rows if not row.is_live]
        live = len(rows) - len(ended)
        if not ended:
            self._notify("a live run is never deleted: stop it first")
            return
        question = _names(ended)
        question += f"\n\n{live} live ones stay." if live else ""
        question += "\n\nFor seven days, u here or `fresnel-tui undelete` brings them back."
        self._confirm(f"Delete {_number(ended)}?", question, "Delete", DeleteRuns, ended)

    # ---- labels

    def rename(self, rows: Rows) -> None:
        """Give a run another name."""
        row = rows[0]
        place = self._places.of(row)
        self._ask(
            f"Rename {row.name}{_on(row)}",
            row.name,
            "empty for the name it was launched with",
            lambda text: self._commands.act(place, RenameRun(row.run_id, text)),
        )

    def tag(self, rows: Rows) -> None:
        """Change the tags of one run, or add and take tags of several."""
        single = rows[0] if len(rows) == 1 else None
        before = single.tags if single is not None else ()

        def change(text: str) -> None:
            given = text.replace(",", " ").split()
            if single is not None:
                added = [word for word in given if word not in before]
                removed = [word for word in before if word not in given]
            else:
                added = [word for word in given if not word.startswith("-")]
                removed = [word[1:] for word in given if word.startswith("-")]
            self._act(rows, lambda runs: ChangeTags(runs, tuple(added), tuple(removed)))

        if single is not None:
            title, hint = f"Tags of {single.name}{_on(single)}", "words, separated by spaces"
        else:
            title, hint = f"Tags of {len(rows)} runs", "word adds a tag; -word removes it"
        self._ask(title, " ".join(before), hint, change)

    def note(self, rows: Rows) -> None:
        """Write a note on a run."""
        row = rows[0]

        def ask(view: RunView) -> None:
            from tui.panel.screens.note import NoteScreen  # a text area: few runs get a note

            def answered(text: str | None) -> None:
                if text is not None and text != view.run.labels.note:
                    self._commands.act(self._places.of(row), WriteNote(row.run_id, text))

            self._app.push_screen(NoteScreen(view.run), answered)

        self._places.view(row, ask)

    def star(self, rows: Rows) -> None:
        """Star runs, or take the star away where all have one."""
        # As the marks of an editor do: a mixed selection becomes all of one kind.
        starred = not all(row.starred for row in rows)
        self._act(rows, lambda runs: StarRuns(runs, starred))

    def prioritise(self, by: int, rows: Rows) -> None:
        """Let queued runs go before others, or after them; running jobs have an hour more."""
        queued = [row for row in rows if row.state is State.QUEUED]
        running = [row for row in rows if by > 0 and row.is_live and row not in queued]
        if not queued and not running:
            self._notify(_NO_PRIORITY)
        self._act(queued, lambda runs: ChangePriority(runs, by))
        self._act(running, lambda runs: ExtendRuns(runs, 60))

    def fetch(self, rows: Rows) -> None:
        """Bring the results of a rented machine's run here."""
        row = self._pane.selected_row or rows[0]
        if not row.machine:
            self._notify(f"{row.name} ran here: its results are where it wrote them")
            return
        self._notify(f"fetching {row.name} into ./fetched…")
        arguments = ["fetch", row.run_id, "--to", "fetched", "--host", row.machine]
        self._commands.command(self._commands.local_place, arguments)

    # ---- after its end

    def remedy(self) -> None:
        """Say why the selected run ended, and offer what mends it."""
        row = self._pane.selected_row
        if row is None or row.is_live:
            self._notify("the selected run has not ended" if row else _NONE)
            return
        from tui.panel.screens.remedy import RemedyScreen
        from tui.views.health.remedy_offer import RemedyOffer

        place, run = self._places.of(row), row.run_id
        screen = RemedyScreen(row.name, partial(self._again, row))
        apply = if_answered(lambda chosen: self._commands.act(place, ApplyRemedy(run, chosen)))
        self._app.push_screen(screen, apply)
        question = Question.REMEDIES
        self._places.ask(place, question, [run], RemedyOffer, screen.take, screen.fail)

    # ---- processes of no run

    def end_strangers(self, seen: Sequence[GpuProcess]) -> None:
        """Ask twice whether those of this user's shall end; say of the others why they stay.

        By SIGTERM; one that was asked so before and is still there, by SIGKILL.
        """
        ours, others = [], []
        for process in seen:
            try:
                ours.append(own_process(process))
            except FresnelError as error:
                others.append(safe_cell(str(error)))
        if not ours:
            self._notify(others[0] if others else "no process here is outside of a run")
            return
        force = all(process in self._asked for process in ours)
        how = "SIGKILL, at once" if force else "SIGTERM; K again: SIGKILL"
        named = [f"pid {each.pid}  {safe_cell(each.command)[:_COMMAND]}" for each in ours[:_SHOWN]]
        lines = [*named, *others[:_SHOWN], "", f"By {how}. It belongs to no run."]
        title = f"End {len(ours)} process{'es' if len(ours) > 1 else ''} of yours?"
        sure = f"{', '.join(named)}\n\nWhat it has not saved is lost."
        again = QuestionScreen("Are you sure?", sure, "End it")
        end = if_answered(lambda _: self._end(ours, force))
        ask_again = if_answered(lambda _: self._app.push_screen(again, end))
        self._app.push_screen(QuestionScreen(title, "\n".join(lines), "End it"), ask_again)

    def _end(self, processes: Sequence[OwnProcess], force: bool) -> None:
        for process in processes:
            try:
                end_process(process, force)
            except FresnelError as error:
                self._notify(str(error))
            else:
                self._asked.add(process)
                self._notify(f"pid {process.pid} was sent {'SIGKILL' if force else 'SIGTERM'}")

    # ---- asking and doing

    def _act(self, rows: Rows, action: ActionOfRuns) -> None:
        for place, runs in self._places.grouped(rows):
            self._commands.act(place, action(runs))

    def _ask(self, title: str, value: str, hint: str, then: Callable[[str], object]) -> None:
        def answered(text: str | None) -> None:
            # None is Esc; what is as it was is no command to note.
            if text is not None and text != value:
                then(text)

        kind = title.partition(" ")[0]
        self._app.push_screen(LineScreen(kind, f"{title}: {hint}", value), answered)

    def _confirm(self, title: str, text: str, yes: str, action: ActionOfRuns, rows: Rows) -> None:
        def act(_: bool) -> None:
            self._act(rows, action)
            # Marks that stayed would have the next key act on these runs again.
            self._pane.forget_marks()

        self._app.push_screen(QuestionScreen(title, text, yes), if_answered(act))

    def _notify(self, text: str) -> None:
        self._app.notify(text, timeout=4, markup=False)


def _on(row: RunRow) -> str:
    return f" on {row.machine}" if row.machine else ""


def _number(rows: Rows) -> str:
    return f"1 run{_on(rows[0])}" if len(rows) == 1 else f"{len(rows)} runs"


def _names(rows: Rows) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(f"{row.name}{_on(row)}" for row in rows[:_NAMED]) + more
