"""A panel's snapshot as JSON and back: what the agent of another machine sends of it.

What only grows with time (seconds, money of a session) is sent in steps that a person would see:
an idle machine says nothing.
"""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec

from tui.panel.feed import PanelSnapshot
from tui.views.run_view import RunView

_CENT = Decimal("0.01")
_STEPS = {
    "power_w": 5.0,
    "memory_used": 32 << 20,
    "clock_mhz": 50,
    "memory_clock_mhz": 50,
    "cpu_percent": 10.0,
    "load_1m": 1.0,
    "disk_free": 256 << 20,
}
_LEFT_OUT = frozenset({"diagnosis"})
"""Fields of a RunView that only a thorough look has."""


def picture_to_tree(picture: PanelSnapshot) -> dict[str, Any]:
    """The snapshot as nested dicts, with runs and GPUs by their ids: ready to be compared."""
    tree: dict[str, Any] = msgspec.to_builtins(picture)
    del tree["time"]
    runs = tree["runs"]
    tree["order"] = [view["run"]["id"] for view in runs]
    tree["runs"] = {view["run"]["id"]: _settled(view) for view in runs}
    if tree["reading"] is not None:
        reading = tree["reading"]
        reading.pop("time", None)
        reading["order"] = [gpu["uuid"] for gpu in reading["gpus"]]
        reading["gpus"] = {gpu["uuid"]: _calm(gpu) for gpu in reading["gpus"]}
        reading["cpu"] = _calm(reading["cpu"])
    tree["meter"] = _cents(tree["meter"])
    return tree


def tree_to_picture(tree: dict[str, Any], time: float, stale: bool = False) -> PanelSnapshot:
    """The snapshot again, taken at `time` (unix seconds here). ValueError when the other end means
    something else by it.
    """
    runs = [tree["runs"][run_id] for run_id in tree["order"] if run_id in tree["runs"]]
    fields = {**tree, "runs": [], "time": time}
    if tree.get("reading") is not None:
        reading = dict(tree["reading"])
        order = reading.pop("order")
        reading["gpus"] = [reading["gpus"][uuid] for uuid in order if uuid in reading["gpus"]]
        fields["reading"] = {**reading, "time": time - (3600.0 if stale else 0.0)}
    values = {
        field.name: msgspec.convert(fields[field.name], field.type)
        for field in msgspec.structs.fields(PanelSnapshot)
        if field.name in fields and field.name != "runs"
    }
    return PanelSnapshot(runs=tuple(_view(view) for view in runs), **values)


def _view(fields: dict[str, Any]) -> RunView:
    return RunView(
        **{
            field.name: msgspec.convert(fields[field.name], field.type)
            for field in msgspec.structs.fields(RunView)
            if field.name in fields and field.name not in _LEFT_OUT
        }
    )


def _settled(view: dict[str, Any]) -> dict[str, Any]:
    view.pop("diagnosis", None)
    view["money"] = _cents(view["money"])
    if isinstance(view.get("seconds"), float):
        view["seconds"] = view["seconds"] // 10 * 10.0
    progress = view.get("progress")
    if isinstance(progress, dict) and isinstance(progress.get("eta_s"), float):
        progress["eta_s"] = progress["eta_s"] // 10 * 10.0
    return view


def _calm(gpu: dict[str, Any]) -> dict[str, Any]:
    """Numbers of a GPU, or of the machine, in the steps of `_STEPS`: a fan's breath is no news."""
    for name, step in _STEPS.items():
        if isinstance(gpu.get(name), (int, float)):
            gpu[name] = type(gpu[name])(round(gpu[name] / step) * step)
    return gpu


def _cents(money: dict[str, Any]) -> dict[str, Any]:
    """Dollars to the cent, moments to the minute."""
    settled = {}
    for name, value in money.items():
        if isinstance(value, str) and name not in ("basis", "old_price", "caveat"):
            value = str(Decimal(value).quantize(_CENT, ROUND_HALF_UP))
        elif isinstance(value, float):
            value = value // 60 * 60.0
        settled[name] = value
    return settled
