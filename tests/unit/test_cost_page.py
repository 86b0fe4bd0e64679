"""The page of money over several sessions: what is newest, or dearest, stands first."""

import time

import msgspec

from runners.cost.ledger import RunEntry
from runners.cost.sessions import Session, SessionLine
from runners.host.clock import Moment
from runners.host.files import append_lines
from runners.host.identity import host_name
from runners.model.plan import AssignedGpu
from runners.model.spec import Price
from runners.state.layout import StateDirectory
from tui.views.money.cost_report import read_page

DAY_S = 86_400.0
PRICE = Price("2", "gpu", "session")
GPU = AssignedGpu(index=0, uuid="GPU-0", name="MI300X", logical=0)


def entered(state: StateDirectory, days_ago: float, hours: dict[str, float]) -> None:
    """A session of a day in the ledger, and a run of each preset that held its GPU so long."""
    began, here = time.time() - days_ago * DAY_S, host_name()
    session = Session(
        *(began, here, PRICE),
        id=f"{days_ago} days ago",
        ended=began + DAY_S / 2,
        uuids=(GPU.uuid,),
    )
    lines: list[SessionLine | RunEntry] = [SessionLine(session)]
    for preset, long in hours.items():
        ended = Moment(began + 3600 * long)
        name = f"{preset}-{days_ago}"
        lines.append(
            RunEntry(name, here, preset, name, "done", (GPU,), PRICE, Moment(began), ended)
        )
    append_lines(state.ledger, map(msgspec.json.encode, lines))


def test_the_newest_session_and_the_dearest_preset_stand_on_top() -> None:
    state = StateDirectory().create()
    entered(state, 5, {"cheap": 1})
    entered(state, 3, {"dear": 9})
    entered(state, 1, {"middling": 3})
    first = {table.headings[0]: [row[0] for row in table.rows] for table in read_page(state).tables}
    assert first["preset"] == ["dear", "middling", "cheap"]
    assert first["session"] == ["1 days ago", "3 days ago", "5 days ago"]
    assert first["day"] == sorted(first["day"], reverse=True)
