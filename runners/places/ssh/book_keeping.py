"""What a linked machine costs, kept here while the link is up: for when it is not."""

import threading
import time
from contextlib import suppress

import msgspec

from runners.cost.machines import (
    MachineAccount,
    is_same_session,
    note_missed,
    read_account,
    write_account,
)
from runners.cost.sessions import Session
from runners.model.errors import FresnelError
from runners.places.ssh.accounts import refresh_account
from runners.places.ssh.ssh import Ssh

_EVERY_S = 60.0


class BookKeeping:
    """Keeps one machine's account current: anew when its session changes, else the time."""

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh
        self._state = ssh.registry.state
        self._kept_at = float("-inf")
        self._session: Session | None = None
        self._asking: threading.Thread | None = None

    def follow(self, session: Session | None) -> None:
        """Take note that it is reached, and has this session open."""
        now = time.monotonic()
        if session == self._session and now - self._kept_at < _EVERY_S:
            return
        if self._asking is not None and self._asking.is_alive():
            return
        self._kept_at, self._session = now, session
        account = read_account(self._state, self._ssh.host.name)
        if account is not None and _is_as_known(session, account.session):
            self._renew(account, session)
        else:
            # In a thread of its own: a slow answer must not hold up the link.
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()

    def _renew(self, account: MachineAccount, session: Session | None) -> None:
        name = self._ssh.host.name
        seen = msgspec.structs.replace(
            account,
            then=account.now,
            reached=time.time(),
            missed=None,
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
