"""What people write on runs, and the trash and the queue: use cases called in threads, each noted
as the command that does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.panel.command_log import CommandLog


class LabelCommands:
    """Rename, tag, note, star, delete, bring back, priority."""

    def __init__(
        self,
        state: StateDirectory,
        log: CommandLog,
        in_thread: Callable[[Callable[[], object]], None],
        tell: Callable[[str], None],
    ) -> None:
        """`in_thread` does something aside and says what went wrong; `tell` says what was done."""
        self._state = state
        self._noted = log
        self._in_thread = in_thread
        self._tell = tell
        self._deleted: list[list[str]] = []

    def rename(self, run: Run, name: str) -> None:
        """Give a run another name; empty: the one of its launch."""
        from runners.lifecycle.control.labels import rename

        self._noted.note(["rename", run.id, name] if name else ["rename", run.id, "--reset"])
        self._in_thread(lambda: rename(self._state, run, name))

    def tag(self, runs: Sequence[Run], added: Sequence[str], taken: Sequence[str]) -> None:
        """Add tags, and take others away."""
        from runners.lifecycle.control.labels import tag, untag

        for run in runs:
            if added:
                self._noted.note(["tag", run.id, *added])
            if taken:
                self._noted.note(["untag", run.id, *taken])

        def change() -> None:
            for run in runs:
                if added:
                    tag(self._state, run, added)
                if taken:
                    untag(self._state, run, taken)

        self._in_thread(change)

    def note(self, run: Run, text: str) -> None:
        """Write a note; empty: none."""
        from runners.lifecycle.control.labels import note

        self._noted.note(["note", run.id, text] if text else ["note", run.id, "--clear"])
        self._in_thread(lambda: note(self._state, run, text))

    def star(self, runs: Sequence[Run], starred: bool) -> None:
        """Mark runs as ones to keep, or no longer."""
        from runners.lifecycle.control.labels import star

        self._noted.note(["star" if starred else "unstar", *(run.id for run in runs)])
        self._in_thread(lambda: [star(self._state, run, starred) for run in runs])

    def delete(self, runs: Sequence[Run]) -> None:
        """Move ended runs to the trash."""
        from runners.lifecycle.control.trash import delete

        self._noted.note(["delete", *(run.id for run in runs)])

        def go() -> None:
            done = delete(self._state, runs)
            if done.deleted:
                self._deleted.append([run.id for run in done.deleted])
                what = (
                    done.deleted[0].name if len(done.deleted) == 1 else f"{len(done.deleted)} runs"
                )
                self._tell(f"deleted {what}: u brings back")
            for run_id, reason in done.kept.items():
                self._tell(f"{run_id} stays: {reason}")

        self._in_thread(go)

    def undelete_last(self) -> None:
        """Bring back what this panel deleted last, else what anybody did."""
        from runners.lifecycle.control.trash import undelete

        names = self._deleted.pop() if self._deleted else ["last"]
        self._noted.note(["undelete", *names])

        def back() -> None:
            runs = undelete(self._state, names)
            self._tell("brought back " + ", ".join(run.name for run in runs))

        self._in_thread(back)

    def priority(self, run: Run, priority: int) -> None:
        """Let a queued run go before those of lower priority."""
        from runners.lifecycle.control.queue_order import set_priority

        self._noted.note(["priority", run.id, str(priority)])

        def change() -> None:
            now = set_priority(self._state, run, priority)
            self._tell(f"{now.name}: priority {priority}")

        self._in_thread(change)
