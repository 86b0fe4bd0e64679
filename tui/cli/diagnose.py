"""`diagnose`."""

import argparse
import time
from pathlib import Path

from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis, to_json
from runners.housekeeping import tended_state
from runners.lifecycle.launch.run_environment import FLIGHT_PREFIX
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.state.runs import find_run
from tui.cli.output import echo, print_json, print_pairs
from tui.views.health.diagnosis_text import diagnose_run, remedy_pairs
from tui.views.health.stack_text import stack_pairs


def _recorder_pairs(run: Run) -> list[tuple[str, str]]:
    """How to look at the last collectives of every rank, where PyTorch has dumped them."""
    folder, prefix = Path(run.directory), FLIGHT_PREFIX
    dumps = len(list(folder.glob(f"{prefix}*")))
    if not dumps:
        return []
    text = f"{dumps} dumps of the last collectives: torchfrtrace --prefix {prefix} {folder}"
    return [("flight recorder", text)]


def run_diagnose(arguments: argparse.Namespace) -> None:
    """Say why a run ended; exit 2 while it runs, or when a signature file cannot be used."""
    state = tended_state()
    run = find_run(state, arguments.run)
    if run.is_live:
        raise WrongInput(
            f"`{run.id}` is {run.state}: it has not ended", "`fresnel-tui logs -f RUN`"
        )
    load_signatures()  # a mistake in the user's own is said at once, with its place
    verdict = diagnose_run(run)
    if arguments.json:
        print_json({"run": run.id, "diagnosis": None if verdict is None else to_json(verdict)})
    elif verdict is None:
        echo(f"{run.id} ended successfully: nothing to explain")
    else:
        pairs = [("run", run.id), ("kind of cause", verdict.kind)]
        if isinstance(verdict, Diagnosis):
            pairs += [("cause", verdict.cause), ("line", verdict.line)]
            pairs += [("evidence", text) for text in verdict.rests_on]
            pairs.append(("remedy", verdict.remedy))
        else:
            pairs.append(("cause", verdict.message))
        pairs += remedy_pairs(verdict)
        pairs += [("looked at", text) for text in verdict.looked_at]
        pairs += [*stack_pairs(Path(run.directory), time.time()), *_recorder_pairs(run)]
        print_pairs([(name, value) for name, value in pairs if value])
