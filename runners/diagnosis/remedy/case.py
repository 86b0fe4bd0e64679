"""What a remedy works on: an ended run, its spec, and the verdict on it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.spec import Parameter, ParameterValue, RunSpec
from runners.presets.config_file import ConfigText, config_beside, read_config
from runners.state.layout import TRAINERS, StateDirectory
from runners.state.rank_processes import processes_of


class Unfit(WrongInput):
    """Why a remedy cannot be applied to this run."""


class FileWork(NamedTuple):
    """A checkpoint file that has to be written before the launch: what the checkpoint tool does."""

    do: str
    source: str
    target: str
    interpreter: str


class Case(NamedTuple):
    """An ended run, the spec it was launched by with what was changed so far, and its verdict."""

    state: StateDirectory
    run: Run
    spec: RunSpec
    verdict: Diagnosis | NotKnown | None = None
    work: tuple[FileWork, ...] = ()

    @property
    def plan(self) -> LaunchPlan:
        """The plan of the ended run. Raises Unfit when it is gone."""
        if self.run.plan is None:
            raise Unfit("its plan is missing")
        return self.run.plan

    @property
    def devices(self) -> int:
        """How many processes compute, or may where only the command knows."""
        return processes_of(self.run) or self.plan.processes

    def changed(self, **fields: object) -> "Case":
        """The same with other fields of the spec."""
        return self._replace(spec=msgspec.structs.replace(self.spec, **fields))

    def with_variable(self, name: str, value: str) -> "Case":
        """The same with an environment variable. Raises Unfit when it has this value already."""
        if self.spec.environment.get(name) == value:
            raise Unfit(f"{name}={value} was set already")
        return self.changed(environment={**self.spec.environment, name: value})

    def parameter(self, *names: str) -> Parameter | None:
        """The first parameter of one of these names, with any prefix of a configuration file."""
        for name in names:
            for parameter in self.spec.parameters:
                leaf = parameter.name.rpartition(".")[2].replace("-", "_")
                if name in (parameter.name, leaf):
                    return parameter
        return None

    def with_parameter(self, parameter: Parameter, value: ParameterValue) -> "Case":
        """The same with another value of a parameter. Raises Unfit when its limits forbid it."""
        try:
            changed = with_value(parameter, value)
        except ValueError as error:
            raise Unfit(f"{parameter.name}: {error}") from None
        others = tuple(
            changed if other.name == parameter.name else other for other in self.spec.parameters
        )
        return self.changed(parameters=others)

    def configuration(self) -> ConfigText | None:
        """The configuration file that the preset names, None when it names none."""
        if self.spec.config is None:
            return None
        path = self.spec.config.path.replace("${trainers}", str(TRAINERS))
        if "${" in path:
            return None
        script = Path(self.spec.script.replace("${trainers}", str(TRAINERS)))
        return read_config(config_beside(path, Path(self.plan.working_directory), script))


Remedy = Callable[[Case], Case]
"""Turns a case into a treated one; raises Unfit."""
