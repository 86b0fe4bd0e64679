"""The machines of one state folder that are reached by ssh: what each showed last, and its link.

What each costs is kept here while its link is up, for when it is not.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.cost.machines import (
    MachineAccount,
    is_same_session,
    note_missed,
    read_account,
    write_account,
)
from runners.cost.sessions import Session
from runners.host.clock import Moment
from runners.model.errors import FresnelError
from runners.places.own_folder import own_folder
from runners.places.remote import remote_row
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.accounts import refresh_account
from runners.places.ssh.link import Link, LinkState, LinkStatus, link_text, offset_text
from runners.places.ssh.older import OlderRuns
from runners.places.ssh.place import SshPlace
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.snapshot_updates import LAYOUT, SnapshotReader
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory

_CLOCK_STEP_S = 1.0
_EVERY_S = 60.0


class LinkedHost:
    """One machine: where its link stands, and what it showed last."""

    def __init__(self, ssh: Ssh, mirror: Path, changed: Callable[[], None]) -> None:
        self.host: RemoteHost = ssh.host
        self.snapshot: PlaceSnapshot | None = None
        self.came = 0.0
        """When, in unix seconds."""
        self.rows: tuple[RunRow, ...] = ()
        """Its runs as rows of a table, newest first; made anew with every snapshot."""
        self.problem = ""
        self._changed = changed
        self._reader = SnapshotReader()
        self.clock_offset = 0.0
        self._books = BookKeeping(ssh)
        self._older_rows: tuple[object, float, tuple[RunRow, ...]] = (None, 0.0, ())
        self.link = Link(ssh, self._status_changed)
        self.older = OlderRuns(self.link, self._older_came)
        self.place = SshPlace(self.link, mirror, self.older.renew)
        self.link.subscribe(self)
        self.link.start()

    @property
    def name(self) -> str:
        """What it is called here."""
        return self.host.name

    @property
    def status(self) -> LinkStatus:
        """Where its link stands."""
        return self.link.status

    @property
    def status_text(self) -> str:
        """The same in words, and how far its clock is off."""
        parts = (link_text(self.status), offset_text(self.status.clock_offset), self.problem)
        return " · ".join(word for word in parts if word)

    @property
    def is_reached(self) -> bool:
        """Whether what is shown is as it is now."""
        return self.link.status.state is LinkState.UP

    # ---- called in the link's thread: the link's status, and the subscription to its snapshots

    def _status_changed(self, status: LinkStatus) -> None:
        if status.state is LinkState.DOWN:
            self._books.missed()
        if abs((status.clock_offset or 0.0) - self.clock_offset) > _CLOCK_STEP_S:
            self.clock_offset = status.clock_offset or 0.0
            self._make_rows()
        self._changed()

    def _make_rows(self) -> None:
        older, offset, rows = self._older_rows
        if older is not self.older.runs or offset != self.clock_offset:
            rows = self._rows_of(self.older.runs.values())
            self._older_rows = self.older.runs, self.clock_offset, rows
        self.rows = self._rows_of(self.snapshot.newest_first if self.snapshot else ()) + rows

    def _rows_of(self, runs: Iterable[RunRow]) -> tuple[RunRow, ...]:
        return tuple([remote_row(self.name, run, self.clock_offset) for run in runs])

    def _older_came(self) -> None:
        self._make_rows()
        self._changed()

    def request(self) -> dict[str, object]:
        """What to ask for, after every break too: everything, and then what changes."""
        return {"do": "watch", "layout": LAYOUT}

    def take(self, frame: LinkMessage) -> int:
        """Take in what changed."""
        if "error" in frame.fields:
            self.problem = f"{frame.fields['error']}: fresnel-tui host setup {self.name}"
        else:
            snapshot = self._reader.take(frame.fields)  # what is none ends the line
            if snapshot is None and not self.problem:
                self._keep_books()
                return 0  # it is as it was
            self.problem = ""
            if snapshot is not None:
                self.older.follow(self.snapshot, snapshot)
                self.snapshot, self.came = snapshot, time.time()
                self._keep_books()
                self._make_rows()
        self._changed()
        return 0

    def _keep_books(self) -> None:
        snapshot = self.snapshot
        guard = None if snapshot is None else snapshot.guard
        preemption = None if guard is None else guard.preemption
        self._books.follow(
            None if snapshot is None else snapshot.session,
            None if preemption is None else preemption.gone,
        )

    is_over = False
    is_machine = True

    # ---- what a screen asks for

    def run(self, run_id: str) -> RunRow | None:
        """A run there, by its id there."""
        found = self.snapshot.runs.get(run_id) if self.snapshot is not None else None
        return found or self.older.runs.get(run_id)

    @property
    def is_down(self) -> bool:
        """Whether it was tried and not reached."""
        return self.status.state is LinkState.DOWN

    @property
    def older_problem(self) -> str:
        """Why older runs did not come; empty when they did."""
        text = f"{self.name}: {self.older.problem}; fresnel-tui host setup {self.name}"
        return text if self.older.problem else ""

    @property
    def hidden(self) -> int:
        """How many ended runs there are not told of; 0 while it is not reached."""
        return self.older.hidden(self.snapshot) if self.is_reached else 0

    def load_older(self) -> None:
        """Have some more of them told."""
        if self.snapshot is not None and self.is_reached:
            self.older.load(self.snapshot)

    def stop(self) -> None:
        """End the link, without waiting, and every log that goes through it."""
        self.link.stop(patience_s=0.0)
        self.place.keep_logs(())


class SshMachines:
    """Every machine that was added and set up."""

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self._registry = RemoteRegistry(state)
        self._mirrors = own_folder(state.remote / ".mirror")
        self._changed = changed
        self._stamps: dict[str, int] = {}
        self.places: dict[str, LinkedHost] = {}
        self.not_set_up: list[str] = []

    def refresh(self) -> None:
        """Take in machines that were added, changed or removed meanwhile."""
        stamps = self._registry.stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        readable, odd = self._registry.readable()
        known = {host.name: host for host in readable}
        for name in [name for name, place in self.places.items() if known.get(name) != place.host]:
            self.places.pop(name).stop()
        self.not_set_up = [*odd, *(host.name for host in readable if not host.command)]
        for host in known.values():
            if host.command and host.name not in self.places:
                ssh = Ssh(self._registry, host)
                mirror = self._mirrors / host.name
                self.places[host.name] = LinkedHost(ssh, mirror, self._changed)
        # In the order in which they were added: the first of two names is the one that counts.
        self.places = {name: self.places[name] for name in known if name in self.places}

    def stop(self) -> None:
        """Have every link end, without waiting: each is in a thread that a line may hold up."""
        for host in self.places.values():
            host.stop()
        shutil.rmtree(self._mirrors, ignore_errors=True)


class BookKeeping:
    """Keeps one machine's account current: anew when its session changes, else the time."""

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh
        self._state = ssh.registry.state
        self._kept_at = float("-inf")
        self._known: tuple[Session | None, Moment | None] = (None, None)
        self._asking: threading.Thread | None = None

    def follow(self, session: Session | None, gone: Moment | None) -> None:
        """Take note that it is reached, has this session open, and will be `gone` then."""
        now = time.monotonic()
        if (session, gone) == self._known and now - self._kept_at < _EVERY_S:
            return
        if self._asking is not None and self._asking.is_alive():
            return
        self._kept_at, self._known = now, (session, gone)
        account = read_account(self._state, self._ssh.host.name)
        if account is not None and _is_as_known(session, account.session):
            self._renew(account, session, gone)
        else:
            # In a thread of its own: a slow answer must not hold up the link.
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()

    def _renew(self, account: MachineAccount, session: Session | None, gone: Moment | None) -> None:
        name = self._ssh.host.name
        seen = msgspec.structs.replace(
            account,
            then=account.moment,
            reached=time.time(),
            missed=None,
            gone=gone,
            # By its name here; with another budget or price than before, perhaps.
            session=session and msgspec.structs.replace(session, host=name),
        )
        with suppress(OSError):
            write_account(self._state, name, seen)

    def missed(self) -> None:
        """Take note that it is not reached."""
        self._kept_at = float("-inf")
        with suppress(OSError):
            note_missed(self._state, self._ssh.host.name)

    def _ask(self) -> None:
        with suppress(FresnelError, OSError):
            refresh_account(self._state, self._ssh)


def _is_as_known(session: Session | None, known: Session | None) -> bool:
    """Whether nothing began or ended since: then the ledger there has nothing new of sessions."""
    return known is None if session is None else is_same_session(session, known)
