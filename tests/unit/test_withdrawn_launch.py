"""What a machine says of a launch that it is asked to withdraw, before it is believed."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from runners.places.fleet.dispatcher import Dispatcher
from runners.state.layout import StateDirectory

RUN = "20261120-231502-train-7f3a"


@pytest.mark.parametrize(
    ("answer", "made"), [([RUN], [RUN]), ([], []), (["--all"], None), ([RUN, 7], None), ("x", None)]
)
def test_only_runs_are_taken_for_runs(
    state: StateDirectory, answer: object, made: list[str] | None
) -> None:
    def ask(question: str, subjects: Sequence[str], done: Callable[[object, str], None]) -> None:
        done({"runs": answer}, "")

    place: Any = SimpleNamespace(place=SimpleNamespace(obstacle="", ask=ask))
    assert Dispatcher(state)._withdraw(place, "request")[0] == made


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> StateDirectory:
    """An empty one."""
    return StateDirectory(tmp_path_factory.mktemp("state")).create()
