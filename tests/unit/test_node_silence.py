"""A node that is not reached while the others stand still."""

from collections.abc import Callable

import pytest

from runners.places.ssh.node_silence import NodeView, SilenceWatch


class _Nodes:
    """Two nodes, and what the first would answer; time passes by the second."""

    def __init__(self) -> None:
        self.watch = SilenceWatch()
        self.now, self.quiet, self.is_reached, self.asked = 0.0, 0.0, True, 0

    def _ask(self, note: Callable[[float], None]) -> None:
        self.asked += 1
        note(self.quiet)

    def pass_seconds(self, count: int, writes: bool) -> str:
        """Let time pass, in which the first node writes or does not; the alert after it."""
        for _ in range(count):
            self.now += 1
            self.quiet = 0.0 if writes else self.quiet + 1
            first = NodeView("node 0 on a", True, False, self._ask)
            second = NodeView("node 1 on b", self.is_reached, False, self._ask)
            self.watch.follow([first, second], self.now)
        return self.watch.text


@pytest.fixture
def nodes() -> _Nodes:
    """Two nodes that were watched for a minute."""
    found = _Nodes()
    assert found.pass_seconds(60, writes=False) == "" and found.asked == 0
    return found


def test_a_node_that_holds_up_the_others_is_an_alert_within_a_minute(nodes: _Nodes) -> None:
    nodes.pass_seconds(1, writes=True)
    nodes.is_reached = False
    found = nodes.pass_seconds(40, writes=False)  # a dead line is noticed within 20 s
    assert "node 1 on b" in found and "node 0 on a" in found
    nodes.is_reached = True
    assert nodes.pass_seconds(1, writes=False) == ""


def test_while_the_others_go_on_there_is_none(nodes: _Nodes) -> None:
    nodes.is_reached = False
    assert nodes.pass_seconds(300, writes=True) == ""
    assert nodes.asked <= 61
    assert nodes.pass_seconds(40, writes=False) != ""
    assert nodes.pass_seconds(12, writes=True) == ""
