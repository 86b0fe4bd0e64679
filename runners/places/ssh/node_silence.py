"""A node that is not reached while the others stand still: an alert long before NCCL's ten minutes.

That the others write nothing is asked of them only then.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from runners.places.ssh.frames import QuietAnswer
from runners.places.ssh.link import Link
from runners.places.ssh.remote_request import ask_once

_DOWN_S = 10.0
"""A line that breaks is often there again by then; a dead one is noticed after some 15 s more."""
_STILL_S = 20.0
_ASKS_EVERY_S = 5.0
_FRESH_S = 12.0
"""An answer that is older says nothing of now."""


class NodeView(NamedTuple):
    """One node as it is now: what it is called, whether it is reached, whether it has ended."""

    name: str
    is_reached: bool
    has_ended: bool
    ask: Callable[[Callable[[float], None]], None]
    """Has the node asked for how many seconds it has written nothing."""


class SilenceWatch:
    """Judges nodes again and again; `text` is the alert, empty while there is none."""

    def __init__(self) -> None:
        self.text = ""
        self._reached: dict[int, float] = {}
        self._asked: dict[int, float] = {}
        self._quiet: dict[int, tuple[float, float]] = {}

    def follow(self, nodes: Sequence[NodeView], now: float) -> bool:
        """Judge the nodes at `now`, in seconds of a clock that does not jump; True for a change."""
        for i, node in enumerate(nodes):
            if node.is_reached or node.has_ended or i not in self._reached:
                self._reached[i] = now
        lost = [i for i, since in self._reached.items() if now - since >= _DOWN_S]
        rest = [i for i, node in enumerate(nodes) if node.is_reached and not node.has_ended]
        if lost:
            for i in rest:
                self._ask(i, nodes[i], now)
        still = [self._still_for(i, now) for i in rest]
        before = self.text
        if not lost or any(quiet is not None and quiet < _STILL_S for quiet in still):
            self.text = ""
        elif rest and not self.text and None not in still:
            names = ", ".join(nodes[i].name for i in lost)
            others = ", ".join(nodes[i].name for i in rest)
            quiet = min(quiet for quiet in still if quiet is not None)
            verb = "is" if len(lost) == 1 else "are"
            self.text = (
                f"{names} {verb} not reached, and nothing was written for {quiet:.0f} s by "
                f"{others}, which may wait for that"
            )
        return self.text != before

    def _ask(self, i: int, node: NodeView, now: float) -> None:
        if now - self._asked.get(i, -_ASKS_EVERY_S) < _ASKS_EVERY_S:
            return
        self._asked[i] = now

        def note(quiet_s: float) -> None:
            self._quiet[i] = quiet_s, now

        node.ask(note)

    def _still_for(self, i: int, now: float) -> float | None:
        """How long a node had written nothing when it was asked of late; None while unknown."""
        quiet, at = self._quiet.get(i, (0.0, -_FRESH_S))
        return quiet if now - at < _FRESH_S else None


def asking(link: Link, run: str) -> Callable[[Callable[[float], None]], None]:
    """What asks the run of a link's machine; an answer that is refused says nothing."""

    def ask(note: Callable[[float], None]) -> None:
        def take(answer: QuietAnswer | None, _: str) -> None:
            if answer is not None:
                note(answer.quiet_s)

        ask_once(link, {"do": "quiet", "run": run}, QuietAnswer, take)

    return ask
