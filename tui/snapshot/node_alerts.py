"""Alerts of launches over several machines, each once, for whoever looks again and again."""

from runners.places.ssh.node_groups import NodeGroup, groups_stamp, list_groups
from runners.state.layout import StateDirectory


class NodeAlerts:
    """Those of one state folder."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._stamp: object = None
        self._known: dict[str, str] = {}

    def new(self) -> list[NodeGroup]:
        """The launches that go on, and have another alert than when this was asked last."""
        stamp = groups_stamp(self._state)
        if stamp == self._stamp:
            return []
        live = [group for group in list_groups(self._state) if not group.ended]
        found = [group for group in live if group.alert != self._known.get(group.name, "")]
        self._stamp, self._known = stamp, {group.name: group.alert for group in live}
        return [group for group in found if group.alert]
