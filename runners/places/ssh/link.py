"""The link to one machine: kept up by a thread, taken up again where it broke.

Who follows something keeps the place they are at; after every break it is asked for from there.
A machine that is not reached is just that, a state of the line: nothing is concluded about its
runs.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple, Protocol

from runners.host.clock import time_of_day
from runners.model.errors import FresnelError
from runners.model.units import duration_text
from runners.places.ssh.connection import (
    BEGINS_WITHIN_S,
    AgentConnection,
    AnswerDeadlines,
    LineLost,
    not_understood,
    silent,
)
from runners.places.ssh.frames import Hello
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.remote_request import RemoteRequest, command_message
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble

_BACK_OFF_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_HOPELESS_S = 60.0
"""Between tries where somebody has to do something first."""
_STEADY_S = 5.0
"""A line that held so long begins with the shortest pause again; any that was up, near it."""
_AFTER_A_BREAK = 1
_HELLO = 1
_HOPELESS = (
    Trouble.KEY_CHANGED,
    Trouble.LOGIN,
    Trouble.NO_AGENT,
    Trouble.NOT_UNDERSTOOD,
    Trouble.SILENT,
)


class LinkState(str, Enum):
    """Where a link stands."""

    CONNECTING = "connecting"
    UP = "reached"
    DOWN = "not reached"


class LinkStatus(NamedTuple):
    """Where a link stands since when (unix seconds); down: why, what to do, when it tries again.

    `clock_offset` is how far the machine's clock is ahead of ours, in seconds; None until known.
    """

    state: LinkState
    since: float
    reason: str = ""
    hint: str = ""
    trouble: Trouble | None = None
    retry_at: float | None = None
    clock_offset: float | None = None
    version: str = ""


class Subscription(Protocol):
    """Something that is asked for again after every break."""

    def request(self) -> dict[str, Any]:
        """What to ask for: everything after what was taken."""

    def take(self, frame: LinkMessage) -> int:
        """Take in an answer; the bytes to acknowledge."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""


class Link:
    """One machine, by a thread of its own. `changed` is called in that thread when the status
    changes.
    """

    def __init__(
        self,
        ssh: Ssh,
        changed: Callable[[LinkStatus], None] = lambda _: None,
        watches: bool = True,
    ) -> None:
        """`watches`: for snapshots and logs, not for a word now and then."""
        self.ssh = ssh
        self._watches = watches
        self.status = LinkStatus(LinkState.CONNECTING, time.time())
        self._changed = changed
        self._lock = threading.Lock()
        self._subscriptions: dict[int, Subscription] = {}
        self._asked: dict[int, Subscription | RemoteRequest] = {}
        self._deadlines = AnswerDeadlines()
        self._is_greeted = False
        self._orders: list[RemoteRequest] = []
        self._cancelled: list[int] = []
        self._number = 100
        self._connection: AgentConnection | None = None
        self._greeted_at = 0.0
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"link {ssh.host.name}", daemon=True)

    def start(self) -> "Link":
        """Begin to connect."""
        self._thread.start()
        return self

    def stop(self, patience_s: float = 3.0) -> None:
        """End the link; waits so long at most until it has ended."""
        self._stop.set()
        self._wake()
        if patience_s:
            self._thread.join(patience_s)

    def retry_now(self) -> None:
        """Try again without waiting."""
        self._hurry.set()

    def subscribe(self, subscription: Subscription) -> int:
        """Ask for something, now and after every break; its number, to cancel it by."""
        with self._lock:
            self._number += 1
            self._subscriptions[self._number] = subscription
            number = self._number
        self._wake()
        return number

    def cancel(self, number: int) -> None:
        """Ask no more for it."""
        with self._lock:
            self._subscriptions.pop(number, None)
            self._cancelled.append(number)
        self._wake()

    def order(self, request: RemoteRequest) -> None:
        """Run a command there; refused at once when the machine is not reached."""
        problem = ""
        # Under the lock: the thread, which refuses what is left here, has no later look.
        with self._lock:
            if self.status.state is not LinkState.UP:
                problem = f"{self.ssh.host.name} is not reached"
            elif self._stop.is_set() or not self._thread.is_alive():
                problem = f"the link to {self.ssh.host.name} has ended"
            else:
                self._orders.append(request)
        if problem:
            request.finish(f"{problem}: nothing was done")
        self._wake()

    def _wake(self) -> None:
        self._hurry.set()
        connection = self._connection
        if connection is not None:
            connection.wake()

    # ---- the thread

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            begun = time.monotonic()
            trouble = self._once()
            if self._stop.is_set():
                break
            # What cannot be understood is not asked again at once, though the line was up.
            is_odd = trouble.kind in (Trouble.NOT_UNDERSTOOD, Trouble.SILENT)
            # A line that was up and breaks is taken up at once.
            if self.status.state is LinkState.UP and not is_odd:
                held = time.monotonic() - begun > _STEADY_S
                failures = 0 if held else min(failures, _AFTER_A_BREAK)
            pause = _BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]
            if trouble.kind in _HOPELESS:
                pause = _HOPELESS_S
            failures += 1
            self._down(trouble, pause)
            self._hurry.clear()
            self._hurry.wait(pause * random.uniform(0.8, 1.2))
        self._refuse_orders(f"the link to {self.ssh.host.name} has ended", launches_too=True)

    def _refuse_orders(self, why: str, launches_too: bool) -> None:
        """Answer what was ordered and never sent; a launch that was sent may be asked again."""
        with self._lock:
            left = [order for order in self._orders if launches_too or not order.name]
            self._orders = [order for order in self._orders if order not in left]
        for order in left:
            done = f"whether it was done: fresnel-tui list --host {self.ssh.host.name}"
            order.finish(f"{why}: {done if order.is_sent else 'it was not done'}")

    def _once(self) -> RemoteTrouble:
        """Connect and serve until the line breaks; why it did."""
        try:
            connection = AgentConnection(self.ssh, self.ssh.link_sharing, self._watches)
        except RemoteTrouble as error:
            return error
        except OSError as error:
            return RemoteTrouble(Trouble.NOT_REACHED, f"ssh cannot be started: {error.strerror}")
        try:
            self._connection = connection
            connection.begin(self._stop.is_set)
            self._serve(connection)
            return RemoteTrouble(Trouble.NOT_REACHED, "closed")
        except RemoteTrouble as error:
            return error
        except (FresnelError, LineLost) as error:
            stderr = connection.error_output().strip().splitlines()
            message = stderr[-1] if stderr else str(error)
            return RemoteTrouble(Trouble.NOT_REACHED, f"{self.ssh.host.name}: {message}")
        except Exception as error:  # whatever a machine sends ends its line, never this thread
            why = f"{type(error).__name__}: {error}"
            return not_understood(self.ssh.host.name, why, self.status.version)
        finally:
            self._connection = None
            connection.close()
            self._drop_orders()

    def _greet(self, connection: AgentConnection) -> None:
        self._greeted_at = time.time()
        connection.send({"do": "hello", "id": _HELLO})

    def _take_hello(self, connection: AgentConnection, answer: object) -> None:
        """Take in an answer to the greeting.

        The first says that it is there; the second, which waits for nothing that is still being
        loaded, how its clock stands.
        """
        hello = connection.understood(answer, Hello)
        if self._is_greeted:
            offset = hello.time - (self._greeted_at + time.time()) / 2
            self._set(self.status._replace(clock_offset=offset))
            return
        self._is_greeted = True
        self.status = self.status._replace(version=hello.version)
        self._greet(connection)
        self._see_if_up()

    def _see_if_up(self) -> None:
        """One that fell silent before is connected again when it answers, not when it greets."""
        status = self.status
        is_trusted = status.trouble is not Trouble.SILENT or self._deadlines.is_all_answered
        if self._is_greeted and is_trusted and status.state is not LinkState.UP:
            up = status._replace(reason="", hint="", trouble=None, retry_at=None)
            self._set(up._replace(state=LinkState.UP, since=time.time()))

    def _serve(self, connection: AgentConnection) -> None:
        self._asked, self._deadlines, self._is_greeted = {}, AnswerDeadlines(), False
        self._greet(connection)
        until = time.monotonic() + BEGINS_WITHIN_S
        while not self._stop.is_set():
            if not self._is_greeted and time.monotonic() > until:
                raise not_understood(self.ssh.host.name, "it does not greet")
            self._ask_new(connection)
            for frame in connection.receive(1.0):
                self._take(connection, frame)
            self._see_if_up()
            if self._deadlines.is_missed:
                raise silent(self.ssh.host.name)

    def _ask_new(self, connection: AgentConnection) -> None:
        with self._lock:
            new = {n: s for n, s in self._subscriptions.items() if n not in self._asked}
            orders, self._orders = self._orders, []
            cancelled, self._cancelled = self._cancelled, []
            numbered = []
            for order in orders:
                self._number += 1
                numbered.append((self._number, order))
        for number in cancelled:
            self._deadlines.cancelled(number)
            if self._asked.pop(number, None) is not None:
                connection.send({"id": number, "do": "cancel"})
        for number, subscription in new.items():
            self._asked[number] = subscription
            if not subscription.is_over:
                asked = subscription.request()
                connection.send({**asked, "id": number})
                self._deadlines.asked(number, asked["do"])
        for number, order in numbered:
            self._asked[number] = order
            order.is_sent = True
            connection.send(command_message(number, order.arguments, order.folder, order.name))

    def _take(self, connection: AgentConnection, frame: LinkMessage) -> None:
        number = frame.fields.get("id")
        if number == _HELLO and "answer" in frame.fields:
            self._take_hello(connection, frame.fields["answer"])
            return
        known = self._asked.get(number) if isinstance(number, int) else None
        if known is None or not isinstance(number, int):
            return
        if isinstance(known, RemoteRequest):
            if known.take(frame):
                self._asked.pop(number)
            return
        self._deadlines.answered(number)
        taken = known.take(frame)
        if taken:
            connection.send({"id": number, "do": "ack", "taken": taken})

    def _drop_orders(self) -> None:
        lost = [request for request in self._asked.values() if isinstance(request, RemoteRequest)]
        self._asked = {}
        with self._lock:
            again = [order for order in lost if order.name and not self._stop.is_set()]
            for order in again:
                order.begin_again()
            self._orders = again + self._orders
        for order in (order for order in lost if order not in again):
            order.finish(
                f"the line to {self.ssh.host.name} broke before it answered: whether "
                f"`{' '.join(order.arguments[:2])}` was done will be seen when it is back"
            )

    def _down(self, trouble: RemoteTrouble, pause: float) -> None:
        # Down since the first failure, however often it was tried since.
        known = self.status
        since = known.since if known.state is LinkState.DOWN else time.time()
        self._set(
            known._replace(
                state=LinkState.DOWN,
                since=since,
                reason=trouble.message,
                hint=trouble.hint,
                trouble=trouble.kind,
                retry_at=time.time() + pause,
            )
        )
        self._refuse_orders(trouble.message, launches_too=trouble.kind in _HOPELESS)

    def _set(self, status: LinkStatus) -> None:
        self.status = status
        with suppress(RuntimeError):  # whoever listened has gone
            self._changed(status)


def link_text(status: LinkStatus) -> str:
    """`reached since 12:04`, or `not reached since 12:04: why; tries again in 8 s`."""
    since = time_of_day(status.since)
    if status.state is LinkState.CONNECTING:
        return "connecting…"
    if status.state is LinkState.UP:
        return f"reached since {since}"
    text = f"not reached since {since}"
    if status.reason:
        text += f": {status.reason}"
    left = None if status.retry_at is None else max(0, round(status.retry_at - time.time()))
    return text if left is None else f"{text}; tries again in {left} s"


def offset_text(offset: float | None) -> str:
    """How far a machine's clock is from ours, when it is more than a person would overlook."""
    if offset is None or abs(offset) < 2.0:
        return ""
    return f"its clock is {duration_text(abs(offset))} {'ahead' if offset > 0 else 'behind'}"
