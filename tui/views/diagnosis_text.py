"""The verdict on an ended run, for people."""

from runners.doctor.verdict import Diagnosis, NotKnown
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.model.states import State


def diagnose_run(run: Run) -> Diagnosis | NotKnown | None:
    """Why `run` ended; None while it is live and when it ended well.

    A mistake in the user's own signatures is told as the verdict: it must not hide the run.
    """
    if run.is_live or run.state is State.DONE:
        return None
    # Only a run that ended badly needs them: `list` and the panel start without.
    from runners.doctor.diagnosis import diagnose
    from runners.doctor.evidence import gather_evidence
    from runners.doctor.signatures import load_signatures

    try:
        signatures = load_signatures()
    except WrongInput as error:
        return NotKnown("signatures_unusable", f"not known: {error.message}", ())
    return diagnose(gather_evidence(run), signatures)


def diagnosis_pairs(verdict: Diagnosis | NotKnown | None) -> list[tuple[str, str]]:
    """A verdict as names and values; of a plain stop, whose reason says all, nothing."""
    if verdict is None or verdict.kind in ("stopped", "cancelled"):
        return []
    if isinstance(verdict, NotKnown):
        return [("cause", verdict.words)]
    pairs = [("cause", verdict.cause), ("rests on", "; ".join(verdict.rests_on))]
    if verdict.remedy:
        pairs.append(("remedy", verdict.remedy))
    return pairs
