"""Runs from Python: launch them, look at them, end them; the same as the commands do.

    from fresnel_tui.api import launch, runs, sweep

    run = launch("gaussian-fast", {"epochs": 20}, gpus=1, name="trial")
    run.wait()
    print(run.state, run.metrics["loss"], run.best)

    sweep("gaussian-fast", {"lr": [1e-4, 3e-4], "seed": range(3)}, parallel=2)
    good = [run for run in runs() if run.metrics.get("loss", 1.0) < 0.1]

Runs survive the program that launched them. What cannot be done raises WrongInput, NotFound or
DeniedError, each with a `message` and a `hint`. All state is kept in $FRESNEL_STATE_DIR.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from runners.host.files import open_binary
from runners.housekeeping import tend
from runners.lifecycle.control import labels
from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.start import start_together
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.control.trash import delete
from runners.lifecycle.control.wait import wait_until_ended
from runners.lifecycle.launch.sweep import filled_command
from runners.lifecycle.launch.unattended import refuse_command
from runners.lifecycle.launch.variation import varied
from runners.model.errors import DeniedError, FresnelError, NotFound, WrongInput
from runners.model.parameters import format_value
from runners.model.program import chosen_gpus
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.presets.catalogue import resolve_preset
from runners.presets.command_line import split_command
from runners.presets.load import with_wishes
from runners.presets.sweeps import MOST_RUNS, as_sweep
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, find_runs, list_runs, read_run
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import RunView, view_run

__all__ = [
    "DeniedError",
    "FresnelError",
    "NotFound",
    "RunHandle",
    "State",
    "WrongInput",
    "find",
    "launch",
    "runs",
    "sweep",
]

Value = bool | int | float | str | Sequence[bool | int | float | str] | None
"""What a parameter may be set to."""


class RunHandle:
    """One run; every attribute but `id` is read when it is asked for."""

    def __init__(self, run_id: str, state: StateDirectory | None = None) -> None:
        self.id = run_id
        self._state = state or StateDirectory()

    def __repr__(self) -> str:
        return f"<run {self.id}: {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def state(self) -> State:
        """Where it stands: queued, running, done, failed, stopped, cancelled …"""
        return self._run.state

    @property
    def reason(self) -> str:
        """Why it is where it is, in words; empty where there is nothing to say."""
        return self._run.reason

    @property
    def is_live(self) -> bool:
        """True while it may still change."""
        return self._run.is_live

    @property
    def exit_code(self) -> int | None:
        """Its program's exit status; None while it runs or when unknown."""
        return self._run.exit_code

    @property
    def name(self) -> str:
        """What it is called."""
        return self._run.name

    @property
    def tags(self) -> tuple[str, ...]:
        """What it was tagged with."""
        return self._run.labels.tags

    @property
    def directory(self) -> Path:
        """Its folder: output.log, events.jsonl, plan.json."""
        return self._state.run(self.id).path

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric; NaN and infinity are among them as floats."""
        return {name: value for name, value in self._view.metrics.items() if value is not None}

    @property
    def best(self) -> dict[str, float]:
        """The best value of each metric where more or less is better; of a live run so far."""
        view = self._view
        so_far = {name: value for name, (value, _) in view.best_so_far.items()}
        ended = {name: final.best for name, final in view.final.items()}
        return so_far or {name: best for name, best in ended.items() if best is not None}

    @property
    def fraction(self) -> float | None:
        """How far it is, from 0 to 1; None when unknown."""
        return self._view.progress.fraction

    @property
    def cost_usd(self) -> float | None:
        """US dollars so far; None when no price is known."""
        cost = self._view.money.cost
        return None if cost is None else float(cost)

    def to_json(self) -> dict[str, Any]:
        """Everything, as `fresnel-tui status RUN --json` prints it."""
        return to_json(self._view)

    def output(self) -> str:
        """All that its program printed; what is not UTF-8 is replaced."""
        try:
            with open_binary(self._state.run(self.id).output) as file:
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def wait(self, timeout_s: float | None = None) -> State:
        """Wait until it has ended and return how; TimeoutError after `timeout_s` seconds."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        def check() -> None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{self.id} has not ended in {timeout_s:g} s")

        return wait_until_ended(self._state, self.id, check).state

    def stop(self, force: bool = False) -> None:
        """Ask it to stop, step by step; with `force` by SIGKILL at once."""
        refuse_command("stop")
        if self.is_live:
            request_stop(self._state, self._run, force)

    def rename(self, name: str) -> None:
        """Give it another name."""
        refuse_command("rename")
        labels.rename(self._state, self._run, name)

    def tag(self, *tags: str) -> None:
        """Add tags, one word each."""
        refuse_command("tag")
        labels.tag(self._state, self._run, tags)

    def note(self, text: str) -> None:
        """Write a note, in place of the older one."""
        refuse_command("note")
        labels.note(self._state, self._run, text)

    def delete(self) -> None:
        """Move it to the trash (`fresnel-tui undelete`); DeniedError while it is live or needed."""
        refuse_command("delete")
        kept = delete(self._state, [self._run]).kept
        if self.id in kept:
            raise DeniedError(f"{self.id} stays: {kept[self.id]}")

    @property
    def _run(self) -> Run:
        if not self._state.run(self.id).path.is_dir():
            raise NotFound(f"no run `{self.id}`", "it may have been deleted")
        return read_run(self._state, self.id)

    @property
    def _view(self) -> RunView:
        return view_run(self._run, thorough=True)


def launch(
    preset: str | Path = "",
    set: Mapping[str, Value] | None = None,
    *,
    command: str | Sequence[str] = (),
    again: "str | RunHandle" = "",
    name: str = "",
    gpus: int | Literal["all"] | None = None,
    gpu_ids: str | None = None,
    priority: int | None = None,
    after: "str | RunHandle | None" = None,
    price: str | None = None,
    queue: bool = True,
) -> RunHandle:
    """Launch a preset, a `command`, or a run `again` with `set` changed, and return the run.

    `{KEY}` in a command stands for a value of `set`. It waits in the queue while its GPUs are busy;
    DeniedError instead where `queue` is false.
    """
    if sum(map(bool, (preset, command, again))) != 1:
        raise WrongInput("give one of them: a preset, a command, or a run to launch again")
    refuse_command("launch")
    state = StateDirectory().create()
    tend(state)
    overrides = _overrides(set or {})
    if again:
        run = find_run(state, again.id if isinstance(again, RunHandle) else again)
        spec = varied(relaunch_spec(state, run), overrides, name)
    else:
        spec = _spec(preset, command, overrides, name)
    spec = _with_options(spec, gpus, gpu_ids, priority, after, price)
    return RunHandle(start_together(state, [spec], queue)[0].id, state)


def sweep(
    preset: str | Path = "",
    grid: Mapping[str, Iterable[bool | int | float | str]] | None = None,
    set: Mapping[str, Value] | None = None,
    *,
    command: str | Sequence[str] = (),
    parallel: int | None = None,
    name: str = "",
    gpus: int | Literal["all"] | None = None,
    priority: int | None = None,
    price: str | None = None,
) -> list[RunHandle]:
    """Launch a preset or a command with every combination of `grid` as a group.

    `{KEY}` in a command stands for a value. At most `parallel` run at once.
    """
    if bool(preset) == bool(command) or not grid:
        raise WrongInput("give a preset or a command, and a grid: {'lr': [1e-4, 3e-4]}")
    refuse_command("launch")
    keys = list(grid)
    combinations = list(product(*(list(grid[key]) for key in keys)))
    if not 1 <= len(combinations) <= MOST_RUNS:
        raise WrongInput(f"these are {len(combinations):,} combinations; expected 1 to {MOST_RUNS}")
    state = StateDirectory().create()
    tend(state)
    members = []
    for values in combinations:
        chosen = dict(zip(keys, values, strict=True))
        spec = _spec(preset, command, _overrides({**(set or {}), **chosen}), "")
        texts = {key: _text(value) for key, value in chosen.items()}
        members.append((_with_options(spec, gpus, None, priority, None, price), texts))
    started = start_together(state, as_sweep(members, name, parallel))
    return [RunHandle(run.id, state) for run in started]


def runs(*names: str, live: bool = False) -> list[RunHandle]:
    """All runs, oldest first; those with `names` (ids, names, groups), or those that are `live`."""
    state = StateDirectory()
    most_ended = 0 if live else None
    found = find_runs(state, names) if names else list_runs(state, most_ended)
    return [RunHandle(run.id, state) for run in found if run.is_live or not live]


def find(name: str) -> RunHandle:
    """The run with this id, beginning of an id, or name (its newest), or `last`; else NotFound."""
    state = StateDirectory()
    return RunHandle(find_run(state, name).id, state)


def _spec(
    preset: str | Path, command: str | Sequence[str], overrides: list[str], name: str
) -> RunSpec:
    if not isinstance(preset, (str, Path)):
        raise WrongInput(
            f"preset: expected a name or a file, not {preset!r}", "a command: command=[…]"
        )
    if isinstance(command, str):
        command = split_command(command)
    if not command:
        return resolve_preset(str(preset), overrides, name)
    return filled_command([str(word) for word in command], overrides, name)


def _with_options(
    spec: RunSpec,
    gpus: int | str | None,
    gpu_ids: str | None,
    priority: int | None,
    after: "str | RunHandle | None",
    price: str | None,
) -> RunSpec:
    try:
        request = chosen_gpus(gpus, gpu_ids)
    except ValueError as error:
        raise WrongInput(f"gpus: {error}") from None
    run = after.id if isinstance(after, RunHandle) else after
    return with_wishes(spec, request, priority, run, price)


def _overrides(values: Mapping[str, Value]) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in values.items()]


def _text(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return format_value(value)
    return ",".join(format_value(item) for item in value)
