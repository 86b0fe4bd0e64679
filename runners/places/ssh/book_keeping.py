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
from runners.host.clock import Moment
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
