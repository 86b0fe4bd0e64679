"""Runs that end before anybody has watched them: what they saved in silence is theirs."""

import pytest

from tests.process.conftest import CommandLine
from tests.support import eventually

SAVES = ("sh", "-c", "echo weights > model_final.pt")


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_short_run_saves_is_its_own_where_it_worked_alone(
    cli: CommandLine, alone: bool
) -> None:
    if not alone:
        cli.command("sh", "-c", "echo up; sleep 600", ready="up")
    run = cli.command(*SAVES)
    cli.ended(run)
    eventually((run.path / "final.json").exists, what="its report")
    checkpoint = cli.json("status", run.id)["checkpoint"]
    assert (checkpoint and checkpoint["path"]) == (
        str(cli.folder / "model_final.pt") if alone else None
    )
