"""What stays of a run when its directory is pruned: a line in the ledger, as `RunEntry` has it."""

from contextlib import suppress

from runners.host.files import append_line, json_bytes, read_json
from runners.host.identity import host_name
from runners.state.layout import RunDirectory
from runners.state.records import LedgerFields, PlanFields, RecordFields


def append_run(run: RunDirectory, plan: PlanFields, record: RecordFields) -> None:
    """Append a run that has ended; one that never started cost nothing.

    A line written twice counts once. A full disk loses the line: the run's own record still says
    the same, and whoever reads the ledger next enters it again.
    """
    fields = ledger_fields(run, plan, record)
    if fields is not None:
        try:
            append_line(run.home.ledger, json_bytes(fields))
        except OSError:
            with suppress(OSError):  # an empty file mostly finds room
                run.home.unlisted_marker(run.id).touch(0o600)


def ledger_fields(run: RunDirectory, plan: PlanFields, record: RecordFields) -> LedgerFields | None:
    """The ledger's line about a run; None when it never started."""
    started = record.get("started")
    if not started:
        return None
    origin_host = plan["origin"].get("host")
    began = record.get("began") or (started, "", None)
    job = read_json(run.job) or {}  # a run that is no job has no such file
    if job.get("first") and (plan["price"] or {}).get("basis") == "cluster":
        began = (job["first"], "", None)  # it is paid for from then on
    return {
        "type": "run",
        "run": run.id,
        "host": origin_host if isinstance(origin_host, str) and origin_host else host_name(),
        "preset": plan["preset"],
        "name": plan["name"],
        "state": str(record["state"]),
        "gpus": plan["gpus"],
        "price": plan["price"],
        "began": began,
        "finished": record.get("finished") or (record.get("ended") or started, "", None),
        "seen": record.get("seen"),
        "exit_code": record.get("exit_code"),
        "waited": job.get("waited") or 0.0,
    }
