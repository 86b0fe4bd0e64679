"""What a machine is asked over its link: a question that has one answer, or a command."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from runners.host.identity import attendance
from runners.places.ssh.connection import RefusedThere, refuse
from runners.places.ssh.frames import CommandFrame, decoded
from runners.places.ssh.protocol import LinkMessage, new_request_name
from runners.state.requests import REQUEST

T = TypeVar("T")

_MOST_OUTPUT = 32 << 20
"""Bytes that a command may print for somebody who waits for all of it."""


def command_message(
    number: int,
    arguments: Sequence[str],
    folder: str,
    request: str = "",
    keep: bool = True,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What has a command run there; answers bear its `number`.

    `request` names a launch, which is then done once however often it is asked for; what is not
    to `keep` on when the line breaks ends with it.
    """
    named = attendance() | ({REQUEST: request} if request else {})
    return {
        "do": "command",
        "id": number,
        "arguments": list(arguments),
        "folder": folder,
        "keep": keep,
        "environment": {**(environment or {}), **named},
    }


class RemoteRequest:
    """One command to run there.

    A launch has a name, by which it is asked again after a break, and starts nothing twice.
    Nothing else is sent again: whether it was done before a line broke is not known.
    """

    def __init__(self, arguments: list[str], folder: str, done: Callable[["RemoteRequest"], None]):
        self.arguments = arguments
        self.folder = folder
        self.name = new_request_name() if arguments[0] == "launch" else ""
        self.output = b""
        self.errors = b""
        self.exit_code: int | None = None
        self.problem = ""
        self.is_sent = False
        self._done = done

    def begin_again(self) -> None:
        """Forget what was said before the line broke."""
        self.output = self.errors = b""

    def take(self, frame: LinkMessage) -> bool:
        """Take in what a command printed; True when it has ended."""
        try:
            refuse(frame)
        except RefusedThere as error:
            self.finish(str(error))
            return True
        piece = decoded(frame.fields, CommandFrame)
        if piece.stream == 2:
            self.errors += frame.payload
        else:
            self.output += frame.payload
        if len(self.output) + len(self.errors) > _MOST_OUTPUT:
            self.finish(f"it prints more than {_MOST_OUTPUT >> 20} MiB")
            return True
        if piece.exit is None:
            return False
        self.exit_code = piece.exit
        self.finish()
        return True

    def finish(self, problem: str = "") -> None:
        """Tell whoever asked."""
        self.problem = problem
        self._done(self)


class Asks(Protocol):
    """A link, as far as it is needed here."""

    def subscribe(self, subscription: "AgentQuestion[Any]") -> int:
        """Ask; the question's number."""

    def cancel(self, number: int) -> None:
        """Ask no more."""


class AgentQuestion(Generic[T]):
    """A question that has one answer; asked again when the line breaks before it came."""

    def __init__(
        self, asked: Mapping[str, Any], kind: type[T], take: Callable[[T | None, str], object]
    ) -> None:
        """`take` gets the answer as a `kind`, or None and why there is none.

        It raises ValueError for one that means something else: that ends the line.
        """
        self.is_over = False
        self._asked = asked
        self._kind = kind
        self._take = take

    def request(self) -> dict[str, Any]:
        """What is asked."""
        return dict(self._asked)

    def take(self, frame: LinkMessage) -> int:
        """Pass the answer on."""
        self.is_over = True
        try:
            refuse(frame)
            self._take(decoded(frame.fields.get("answer"), self._kind), "")
        except RefusedThere as error:
            self._take(None, str(error))
        except ValueError as error:
            self._take(None, f"an answer that cannot be understood: {error}")
            raise
        return 0


def ask_once(
    link: Asks, asked: Mapping[str, Any], kind: type[T], take: Callable[[T | None, str], object]
) -> None:
    """Ask a question over a link until it is answered; `take` as of an AgentQuestion."""
    numbers: list[int] = []

    def taken(answer: T | None, problem: str) -> None:
        for number in numbers:
            link.cancel(number)
        take(answer, problem)

    numbers.append(link.subscribe(AgentQuestion(asked, kind, taken)))
