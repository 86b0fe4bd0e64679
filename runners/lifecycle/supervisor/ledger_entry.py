"""What a run leaves behind when it ends: a line in the ledger, which stays when its directory is
pruned.

Standard library only: the supervisor imports it. The line's shape is `runners.cost.ledger.RunLine`.
"""

import json
from typing import Any

from runners.host.files import append_line
from runners.host.identity import host_name
from runners.state.layout import RunDirectory, StateDirectory

_SIGNS = ("output.log", "events.jsonl", "gpus.jsonl", "usage.json", "exit")


def last_activity(run: RunDirectory, record: dict[str, Any]) -> float:
    """When a run whose end nobody saw last wrote anything; unix seconds, not before its start."""
    moments = [float(record.get("started") or 0.0)]
    for name in _SIGNS:
        try:
            moments.append((run.path / name).stat().st_mtime)
        except OSError:
            continue
    return max(moments)


def append_run(
    state: StateDirectory, run: RunDirectory, plan: dict[str, Any], record: dict[str, Any]
) -> None:
    """Append a run that has ended; a run that never started spent nothing. A line written twice
    counts once.

    A full disk loses the line: the run's own record still says the same, and pruning enters it
    again.
    """
    if not record.get("started"):
        return
    line = {
        "type": "run",
        "run": run.id,
        "host": (plan.get("origin") or {}).get("host") or host_name(),
        "preset": str(plan.get("preset", "")),
        "name": str(plan.get("name", "")),
        "state": str(record["state"]),
        "gpus": plan.get("gpus") or [],
        "price": plan.get("price"),
        "began": record.get("began") or [record["started"], "", None],
        "finished": record.get("finished") or [record.get("ended"), "", None],
        "seen": record.get("seen"),
        "exit_code": record.get("exit_code"),
    }
    try:
        append_line(
            state.ledger, json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
        )
    except OSError:
        pass
