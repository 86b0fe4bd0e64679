"""Steps of a guide: taken in their order, each once, in one checkout and one state folder."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple, TypeVar

from tests.guides.conftest import GuideCommands

ALL_STEPS = "WALK_THE_GUIDES"
"""A variable: set, the steps that take minutes are taken too."""
Take = Callable[[GuideCommands], None]
T = TypeVar("T", bound=Take)


class Step(NamedTuple):
    """One step of a guide."""

    name: str
    take: Take
    is_long: bool


def step(function: T) -> T:
    """Mark a function as a step."""
    function.__dict__["is_long"] = False
    return function


def long_step(function: T) -> T:
    """Mark a function as a step that takes minutes."""
    function.__dict__["is_long"] = True
    return function


def steps_of(guide: ModuleType) -> list[Step]:
    """The steps of a guide in their order."""
    return [
        Step(name, found, found.__dict__["is_long"])
        for name, found in vars(guide).items()
        if getattr(found, "__module__", "") == guide.__name__ and "is_long" in vars(found)
    ]


def takes_all() -> bool:
    """Whether steps that take minutes are taken too."""
    return bool(os.environ.get(ALL_STEPS))


class Walk:
    """A guide that is walked: whichever step is asked for first, those before it are taken."""

    def __init__(self, commands: GuideCommands, steps: list[Step]) -> None:
        self._commands = commands
        self._steps = [step for step in steps if takes_all() or not step.is_long]
        self._taken: dict[str, Exception | None] = {}

    def take(self, name: str) -> None:
        """Take the steps up to this one, as far as they are not taken; raises what it raised."""
        for step in self._steps:
            if step.name not in self._taken:
                self._taken[step.name] = None
                try:
                    step.take(self._commands)
                except Exception as error:
                    self._taken[step.name] = error
            if step.name == name:
                break
        error = self._taken[name]
        if error is not None:
            raise error
