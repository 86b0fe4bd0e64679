"""The links of all machines, for as long as the panel lives once somebody asked for them."""

import atexit
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textual.app import App

from runners.remote.link import Link, LinkState, LinkStatus, RemoteRequest
from runners.remote.protocol import LinkMessage
from runners.remote.pushed import pushed_overrides
from runners.remote.registry import RemoteHost, RemoteRegistry
from runners.remote.snapshot import RemoteSnapshot, SnapshotReader
from runners.remote.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.panel.remote.mirror import MirroredLog


class LinkedHost:
    """One machine: where its link stands, and what it showed last."""

    def __init__(self, app: App[Any], ssh: Ssh, mirror: Path, changed: Callable[[], None]) -> None:
        self._app = app
        self.host: RemoteHost = ssh.host
        self.snapshot: RemoteSnapshot | None = None
        self.problem = ""
        self._mirror = mirror
        self._changed = changed
        self._reader = SnapshotReader()
        self._followed: tuple[int, MirroredLog] | None = None
        self.link = Link(ssh, lambda _: changed())
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
    def is_reached(self) -> bool:
        """Whether what is shown is as it is now."""
        return self.link.status.state is LinkState.UP

    # ---- the subscription to its snapshots; called in the link's thread

    def request(self) -> dict[str, object]:
        """What to ask for, after every break too: everything, and then what changes."""
        return {"do": "watch"}

    def take(self, frame: LinkMessage) -> int:
        """Take in what changed."""
        try:
            if "error" in frame.fields:
                raise ValueError(str(frame.fields["error"]))
            snapshot = self._reader.take(frame.fields)
        except ValueError as error:
            self.problem = f"its panel speaks another language: {error}; host setup {self.name}"
        else:
            self.problem = ""
            self.snapshot = snapshot or self.snapshot
        self._changed()
        return 0

    is_over = False

    # ---- what the screen asks for

    def open_log(self, run: str) -> Path:
        """Follow the output of a run, and of no other; the file here that it is written to."""
        self.close_log()
        log = MirroredLog(self._mirror / run / "output.log", run, self.name)
        self._followed = self.link.subscribe(log), log
        return log.path

    def close_log(self) -> None:
        """Follow nothing."""
        if self._followed is not None:
            self.link.cancel(self._followed[0])
            self._followed = None

    def pushed(self, preset: str, given: Sequence[str]) -> list[str]:
        """The flags with which a pushed preset finds its things there."""
        return pushed_overrides(self.link.ssh.registry, self.host, preset, given)

    def do(self, words: Sequence[str], done: Callable[[RemoteRequest], None]) -> None:
        """Run a command there; `done` is called in the app's own thread."""

        def later(request: RemoteRequest) -> None:
            if self._app.is_running:
                self._app.call_later(done, request)

        self.link.order(RemoteRequest(list(words), self.host.folder, later))


class LinkedHosts:
    """Every machine that was added and set up."""

    def __init__(self, app: App[Any], state: StateDirectory, changed: Callable[[], None]) -> None:
        self._registry = RemoteRegistry(state)
        self._mirrors = state.remote / ".mirror"
        self.hosts: dict[str, LinkedHost] = {}
        self.not_set_up: list[RemoteHost] = []
        self._app = app
        self._on_change = changed
        shutil.rmtree(self._mirrors, ignore_errors=True)
        self.refresh()
        atexit.register(self.stop)

    def refresh(self) -> None:
        """Take in machines that were added, changed or removed meanwhile."""
        known = {host.name: host for host in self._registry.all()}
        for name in [name for name, one in self.hosts.items() if known.get(name) != one.host]:
            self.hosts.pop(name).link.stop(patience_s=0.0)
        self.not_set_up = [host for host in known.values() if not host.command]
        for host in known.values():
            if host.command and host.name not in self.hosts:
                ssh = Ssh(self._registry, host)
                mirror = self._mirrors / host.name
                self.hosts[host.name] = LinkedHost(self._app, ssh, mirror, self._tell)

    def stop(self) -> None:
        """Have every link end, without waiting: each is in a thread that may be in a line's
        hands.
        """
        atexit.unregister(self.stop)
        for one in self.hosts.values():
            one.link.stop(patience_s=0.0)

    def _tell(self) -> None:
        """Called in a link's thread: have the screen look, in the app's own."""
        if self._app.is_running:
            self._app.call_later(self._on_change)
