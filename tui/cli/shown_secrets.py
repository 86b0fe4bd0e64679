"""`--show-secrets`: a plan as it really is, for its owner at a terminal and nowhere else."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from runners.host.procfs import environment_of, mark_of
from runners.lifecycle.supervisor.kept_environment import kept_environment
from runners.model.errors import WrongInput
from runners.model.kept_secrets import MASK
from runners.model.masked_plan import arrived, masked_places, restored, secret_name
from runners.model.plan import LaunchPlan
from runners.state.layout import RunDirectory
from tui.cli.output import echo


def refuse_elsewhere(arguments: argparse.Namespace) -> None:
    """Raise WrongInput where secrets would go anywhere but to a person's own terminal."""
    if not getattr(arguments, "show_secrets", False):
        return
    if getattr(arguments, "host", None) or arguments.json or not sys.stdout.isatty():
        raise WrongInput(
            "secrets are shown (--show-secrets) on a terminal of this machine only",
            "without --json and --host, and neither into a file nor into a pipe",
        )


def with_real_secrets(
    plan: LaunchPlan, secrets: Mapping[str, Any], environment: Mapping[str, str]
) -> LaunchPlan:
    """`plan` with its `secrets`, by their places, and the masked variables of `environment`.

    Those that are in neither stay masked, which is said.
    """
    tree = msgspec.to_builtins(plan)
    places = masked_places(tree)
    inherited = {f"environment.{name}": value for name, value in environment.items()}
    known = {**inherited, **secrets}
    gone = [place for place in places if place not in known]
    if gone:
        names = ", ".join(dict.fromkeys(secret_name(p.removeprefix("spec.")) for p in gone))
        echo(f"no longer in memory, so {MASK} here: {names}")
    return msgspec.convert(
        restored(tree, {place: known[place] for place in places if place in known}), LaunchPlan
    )


def run_with_real_secrets(directory: RunDirectory, plan: LaunchPlan) -> LaunchPlan:
    """The plan of a run with what is left of its secrets in memory."""
    kept = kept_environment(directory) or {}
    leader = directory.leader_pid()
    is_own = leader is not None and mark_of(leader) == directory.id
    program = (environment_of(leader) if leader is not None and is_own else None) or {}
    return with_real_secrets(plan, arrived(kept), {**kept, **program})
