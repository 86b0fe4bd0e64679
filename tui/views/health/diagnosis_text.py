"""The verdict on an ended run, for people."""

from runners.diagnosis.verdict import Diagnosis, NotKnown, remedies_for
from runners.model.endings import is_doubtful
from runners.model.run import Run
from runners.model.run_ids import by_names
from runners.model.states import State


def diagnose_run(run: Run) -> Diagnosis | NotKnown | None:
    """Why `run` ended; None while it is live and when it ended well."""
    ended_well = run.state is State.DONE and not is_doubtful(run.ending)
    if run.is_live or ended_well:
        return None
    # Only a run that ended badly needs it: `list` and the panel start without.
    from runners.diagnosis.explain import explain_run

    return explain_run(run)


def diagnosis_pairs(
    verdict: Diagnosis | NotKnown | None, reason: str = ""
) -> list[tuple[str, str]]:
    """A verdict as names and values; of a plain stop, whose reason says all, nothing. `reason` is
    what stands above it already.
    """
    if verdict is None or verdict.kind in ("stopped", "cancelled"):
        return []
    if isinstance(verdict, NotKnown):
        return [("cause", verdict.message), *remedy_pairs(verdict)]
    pairs = [] if verdict.cause == reason else [("cause", verdict.cause)]
    pairs.append(("evidence", by_names("; ".join(verdict.rests_on))))
    if verdict.remedy:
        pairs.append(("remedy", verdict.remedy))
    return pairs + remedy_pairs(verdict)


def remedy_pairs(verdict: Diagnosis | NotKnown) -> list[tuple[str, str]]:
    """Return what `fresnel-tui remedy` can do about it by itself; nothing where it knows none."""
    names = remedies_for(verdict)
    text = f"{', '.join(names)} (`fresnel-tui remedy RUN`; d in the panel)"
    return [("remedies", text)] if names else []
