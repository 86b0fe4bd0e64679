"""What the command line of `launch` names: a preset, a command or an old run, as RunSpecs."""

from functools import cached_property
from typing import Protocol

from runners.lifecycle.launch.sweep import fill_placeholders, takes_several
from runners.model.spec import RunSpec
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
from runners.state.runs import find_run


class SpecSource(Protocol):
    """What runs are made of: overrides give RunSpecs, one or those of a group."""

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The RunSpecs with `KEY=VALUE` overrides and a name; WrongInput for what does not go."""
        ...

    def takes_several(self, key: str) -> bool:
        """Whether commas and ranges in the value of `key` are values of a sweep."""
        ...


class PresetSource:
    """A preset, by its name or file."""

    def __init__(self, preset: str) -> None:
        self.preset = preset

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The runs that the preset starts."""
        from runners.presets.catalogue import resolve_runs  # a command needs none

        return resolve_runs(self.preset, overrides, name)

    @cached_property
    def _unchanged(self) -> list[RunSpec]:
        return self.specs([], "")

    def takes_several(self, key: str) -> bool:
        """Whether a parameter of the one run takes several values; a group has none of its own."""
        return len(self._unchanged) == 1 and takes_several(self._unchanged[0], key)


class CommandSource:
    """A command after `--`; `{KEY}` in it stands for a value given by `--set KEY=VALUE`."""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The one run of the command."""
        filled, others = fill_placeholders(self.command, overrides)
        return [command_spec(filled, others, name)]

    def takes_several(self, key: str) -> bool:
        """Whether the command has a place for the key's value."""
        return any(f"{{{key}}}" in word for word in self.command)


class RunSource:
    """An old run that is launched again, with other `flags` where some stand after `--`."""

    def __init__(self, run: str, flags: list[str] | None) -> None:
        self.run = run
        self.flags = flags

    @cached_property
    def _spec(self) -> RunSpec:
        from runners.lifecycle.control.relaunch import relaunch_spec
        from runners.lifecycle.launch.variation import with_flags

        state = StateDirectory()
        spec = relaunch_spec(state, find_run(state, self.run))
        return spec if self.flags is None else with_flags(spec, self.flags)

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The run's own spec, changed."""
        from runners.lifecycle.launch.variation import varied

        return [varied(self._spec, overrides, name)]

    def takes_several(self, key: str) -> bool:
        """Whether several values of the key make several runs: of parameters by their type."""
        from runners.lifecycle.launch.variation import takes_one_value

        return takes_several(self._spec, key, unknown=not takes_one_value(key))
