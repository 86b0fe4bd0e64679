"""The plan that a machine's agent makes for a form is the plan of the words that launch there."""

import json
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import Phase, given, settings

from runners.model.errors import FresnelError
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tui.agent.launching import launch_answer
from tui.cli.arguments import parse
from tui.cli.specs import specs_from
from tui.snapshot.questions import LaunchQuestion
from tui.views.runs.form_plan import FormPlan, form_plan
from tui.views.runs.launch_choices import LaunchChoices, masked, own_command

WORDS = (
    ("launch", "example"),
    ("launch", "gaussian-tiny", "--set", "epochs=3", "--name", "short"),
    ("launch", "--gpus", "0", "--", "sh", "-c", "echo $HOME && true"),
    ("launch", "--gpus", "0", "--set", "lr=1,2", "--", "echo", "{lr}"),
)
OF_THE_RUN = ("run", "run folder", "environment", "checkpoints")
"""What has the run's own id in it, or may have."""


def over_a_link(state: StateDirectory, words: Sequence[str]) -> FormPlan:
    sent = json.dumps(launch_answer(state, LaunchQuestion.PLAN, words))
    return msgspec.convert(json.loads(sent), FormPlan)


def told(plan: FormPlan) -> list[list[tuple[str, str]]]:
    return [[pair for pair in run.pairs if pair[0] not in OF_THE_RUN] for run in plan.runs]


@settings(max_examples=8, deadline=None, phases=[Phase.generate], derandomize=True)
@given(host=hosts(adoptable=False))
def test_a_plan_over_a_link_is_that_of_the_same_words_here(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        for words in WORDS:
            arguments = parse(words)
            assert arguments is not None
            specs = specs_from(arguments)
            mine = form_plan(world.state, specs)
            found = over_a_link(world.state, words)
            assert told(found) == told(mine)
            assert [run.starts for run in found.runs] == [run.starts for run in mine.runs]


@pytest.mark.parametrize(
    "words", [["launch", "no-such-preset"], ["launch"], ["stop", "last"], ["launch", "--what"], []]
)
def test_what_launches_nothing_is_refused(words: list[str]) -> None:
    with pytest.raises(FresnelError):
        launch_answer(StateDirectory(), LaunchQuestion.PLAN, words)


def test_no_secret_of_a_spec_leaves_its_machine() -> None:
    spec = command_spec(["train", "--api-key", "sk-1234567890abcdef"])
    spec = msgspec.structs.replace(spec, environment={"HF_TOKEN": "hf_abcdefghijklmnop"})
    choice = own_command()
    entry = msgspec.structs.replace(choice.entry, specs=(spec,))
    choice = msgspec.structs.replace(choice, entry=entry)
    sent = msgspec.json.encode(LaunchChoices((masked(choice),))).decode()
    assert "sk-1234567890abcdef" not in sent
    assert "hf_abcdefghijklmnop" not in sent
    assert "HF_TOKEN" in sent
