"""What can be done about an ended run: the verdict, and each remedy with the diff of its plan."""

import msgspec

from runners.diagnosis.remedy.remedies import Proposal, open_case, propose
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.views.health.diagnosis_text import diagnose_run


class RemedyOffer(msgspec.Struct, frozen=True):
    """Why a run ended and what mends it; `problem` says why nothing can be proposed."""

    verdict: Diagnosis | NotKnown | None
    proposals: tuple[Proposal, ...] = ()
    problem: str = ""


def offer_remedies(state: StateDirectory, run: Run) -> RemedyOffer:
    """The verdict on an ended run and its remedies, first those that are possible."""
    verdict = diagnose_run(run)
    try:
        proposals = propose(open_case(state, run, verdict))
    except FresnelError as error:
        return RemedyOffer(verdict, problem=error.message)
    return RemedyOffer(verdict, tuple(sorted(proposals, key=lambda found: bool(found.obstacle))))
