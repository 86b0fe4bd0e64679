"""`probe`: the largest batch that fits, found by short real runs."""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from runners.lifecycle.launch.probe_results import ProbeResult, ProbeStep
from runners.model.errors import ExitCode, WrongInput
from runners.model.spec import RunSpec
from runners.probe.largest_batch import ProbeWatcher, probe, rate_for, request_for
from runners.probe.trial import TrialLength
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.cli.specs import specs_from
from tui.views.format import DASH, memory


def run_probe(arguments: argparse.Namespace) -> int:
    """Probe one preset; print each trial and the command that uses what was found."""
    specs = specs_from(arguments)
    if len(specs) > 1:
        raise WrongInput(f"`{arguments.preset}` is a group", "probe one of its presets")
    spec, state = specs[0], StateDirectory().create()
    length = TrialLength(arguments.steps, arguments.within)
    request = request_for(state, spec, arguments.batch, arguments.first, arguments.most, length)
    request = request._replace(keep_runs=arguments.keep_runs)
    watcher = ProbeWatcher(lambda run: echo(f"{run.name}: {run.id}"), _print_step)
    try:
        with _interrupted_by(signal.SIGTERM, signal.SIGHUP):
            result = probe(state, spec, request, watcher)
    except KeyboardInterrupt:
        echo("\ninterrupted: the trial was stopped, nothing was kept")
        raise
    if arguments.json:
        print_json(_to_json(spec, result))
        return ExitCode.DONE
    rows = [_row(step, result) for step in result.steps]
    print_table((result.parameter, "", "VRAM peak", "samples/s"), rows)
    fastest = max(result.steps, key=lambda step: step.samples_per_s or 0.0)
    print(f"\nlargest that fits on {result.devices} × {result.gpu}: {_result_text(spec, result)}")
    if fastest.batch != result.batch and fastest.samples_per_s:
        print(f"fastest: {result.parameter}={fastest.batch}")
    print(f"fresnel-tui launch {arguments.preset} {_settings(spec, result)}")
    return ExitCode.DONE


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals do what Ctrl-C does: a trial is nobody's run but this command's."""
    before = {number: signal.getsignal(number) for number in numbers}
    for number in [number for number, handler in before.items() if handler is not signal.SIG_IGN]:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_step(step: ProbeStep) -> None:
    verdict = "fits" if step.fits else "does not fit"
    peak = f", {_memory(step)} at its peak" if step.memory else ""
    pace = f", {step.samples_per_s:.1f} samples/s" if step.samples_per_s else ""
    echo(f"  {step.batch} {verdict}{peak}{pace}")


def _memory(step: ProbeStep) -> str:
    return memory(step.memory or 0) + (" (simulated)" if step.simulated else "")


def _row(step: ProbeStep, result: ProbeResult) -> tuple[str, str, str, str]:
    verdict = "fits" if step.fits else "out of memory"
    if step.batch == result.batch:
        verdict = "largest that fits"
    peak = _memory(step) if step.memory else DASH
    pace = f"{step.samples_per_s:.1f}" if step.samples_per_s else DASH
    return str(step.batch), verdict, peak, pace


def _result_text(spec: RunSpec, result: ProbeResult) -> str:
    rate = rate_for(spec, result)
    text = f"{result.parameter}={result.batch}"
    if rate is not None and spec.scaling is not None:
        text += f", {spec.scaling.learning_rate} {rate:g} by the {spec.scaling.rule} rule"
    return text


def _settings(spec: RunSpec, result: ProbeResult) -> str:
    rate = rate_for(spec, result)
    text = f"--set {result.parameter}={result.batch}"
    if rate is not None and spec.scaling is not None and spec.scaling.rule != "program":
        text += f" --set {spec.scaling.learning_rate}={rate:g}"
    return text


def _to_json(spec: RunSpec, result: ProbeResult) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(result)
    return {**found, "learning_rate": rate_for(spec, result)}
