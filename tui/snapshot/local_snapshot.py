"""This machine's snapshot as the one type that every place has: what its agent sends."""

from runners.places.snapshot import PlaceSnapshot
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.row_reading import row_of_view


def place_snapshot(snapshot: PanelSnapshot) -> PlaceSnapshot:
    """What the panel shows of this machine, its runs as rows."""
    return PlaceSnapshot(
        host=snapshot.host,
        runs={view.run.id: row_of_view(view) for view in snapshot.runs},
        reading=snapshot.reading,
        leases=snapshot.leases,
        session=snapshot.session,
        meter=snapshot.meter,
        guard=snapshot.guard,
        drained=snapshot.drained,
        problem=snapshot.problem,
        hidden=snapshot.hidden,
    )
