"""`cost plan`: what a row of runs should cost together, against a budget."""

import argparse
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from runners.cost.estimate import forecast
from runners.cost.prices import choose_price, parse_rate
from runners.cost.sessions import read_session
from runners.gpus.cards import fraction_of
from runners.gpus.client import read_gpus
from runners.model.errors import ExitCode, NotFound, WrongInput
from runners.model.gpus import GpuSnapshot
from runners.model.plan import Estimate
from runners.model.spec import Price, RunSpec
from runners.presets.catalogue import resolve_runs
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH, dollars, duration
from tui.views.json_values import number

PREFIX = "gaussian-"
"""The guide's modes have the short names that the guide gives them: `fast` is the preset
gaussian-fast.
"""


class PlanRow(msgspec.Struct, frozen=True):
    """So many runs of one preset: what they should cost in all, and on what ground."""

    preset: str
    count: int
    each: Estimate | None
    word: Decimal | None

    @property
    def usd(self) -> Decimal | None:
        """Dollars for all of them; None when nobody knows."""
        return (
            None
            if self.each is None or self.each.usd is None
            else self.count * Decimal(self.each.usd)
        )


def run_plan(arguments: argparse.Namespace) -> int:
    """Print the budget table of `PRESET:COUNT …`."""
    if not arguments.words:
        raise WrongInput(
            "cost plan: name what to plan",
            "fresnel-tui cost plan 'validate:1 fast:4 standard:2' --budget 100",
        )
    try:
        budget = None if arguments.budget is None else parse_rate(arguments.budget)
    except ValueError:
        raise WrongInput(f"--budget {arguments.budget}: expected US dollars such as 100") from None
    lines = plan_lines(StateDirectory(), " ".join(arguments.words))
    if arguments.json:
        print_json(_json(lines, budget))
        return ExitCode.DONE
    _print(lines, budget)
    return ExitCode.DONE


def plan_lines(state: StateDirectory, words: str) -> list[PlanRow]:
    """The estimates for `PRESET:COUNT …` here, at the session's price, else the preset's own."""
    wanted = [_parse(word) for word in re.split(r"[\s,]+", words.strip()) if word]
    session = read_session(state)
    gpus: tuple[GpuSnapshot, ...] | None = None
    found = []
    for name, count in wanted:
        for spec in _specs(name):
            if gpus is None and spec.gpus.wants_gpus:
                gpus = read_gpus(state).gpus
            taken = _taken(spec, gpus or ())
            price: Price | None
            if session is not None:
                price = session.price_per_gpu
            else:
                price = None if spec.price is None else choose_price(spec.price, "preset")
            devices = sum((fraction_of(gpu, gpus or ()) for gpu in taken), Fraction(0))
            word = None if spec.estimate.usd is None else Decimal(spec.estimate.usd)
            found.append(
                PlanRow(spec.preset, count, forecast(state, spec, taken, price, devices), word)
            )
    return found


def _parse(word: str) -> tuple[str, int]:
    name, _, count = word.rpartition(":") if ":" in word else (word, "", "1")
    if not name or not count.isdigit() or int(count) < 1:
        raise WrongInput(f"cost plan: `{word}`: expected PRESET:COUNT, such as fast:4")
    return name, int(count)


def _specs(name: str) -> list[RunSpec]:
    try:
        return resolve_runs(name, [], "")
    except NotFound:
        try:
            return resolve_runs(PREFIX + name, [], "")
        except NotFound:
            pass
        raise


def _taken(spec: RunSpec, gpus: tuple[GpuSnapshot, ...]) -> tuple[GpuSnapshot, ...]:
    """As many GPUs as it would take of those that are here, whoever holds them now."""
    cut = {gpu.mig_parent for gpu in gpus}
    usable = tuple(gpu for gpu in gpus if gpu.uuid not in cut)
    return usable if spec.gpus.all else usable[: len(spec.gpus.ids) or spec.gpus.number]


def _print(lines: list[PlanRow], budget: Decimal | None) -> None:
    total = Decimal(0)
    rows = []
    for line in lines:
        each = line.each
        total += line.usd or 0
        rows.append(
            (
                f"{line.preset} × {line.count}",
                duration(
                    None if each is None or each.seconds is None else each.seconds * line.count
                ),
                dollars(line.usd),
                dollars(total),
                DASH
                if budget is None
                else dollars(budget - total)
                if total <= budget
                else "over it",
                dollars(None if line.word is None else line.word * line.count),
                each.basis if each is not None else "nothing is known",
            )
        )
    print_table(("runs", "GPU time", "cost", "total", "left", "preset says", "estimate"), rows)
    for line in lines:
        if line.each is not None and line.each.doubt:
            echo(f"{line.preset}: {line.each.doubt}")
    unknown = [line.preset for line in lines if line.usd is None]
    if unknown:
        echo(f"not counted, because its cost is not known: {', '.join(unknown)}")
    if budget is not None:
        left = budget - total
        text = f"{dollars(left)} are left" if left >= 0 else f"that is {dollars(-left)} too much"
        doubted = [line.preset for line in lines if line.each is not None and line.each.doubt]
        if doubted:
            text += f" if the doubted estimates of {', '.join(doubted)} hold"
        echo(f"of {dollars(budget)}, {text}; estimates of GPU time, without idle time")


def _times(amount: Decimal | None, count: int) -> Decimal | None:
    return None if amount is None else amount * count


def _json(lines: list[PlanRow], budget: Decimal | None) -> dict[str, Any]:
    total = sum((line.usd for line in lines if line.usd is not None), Decimal(0))
    return {
        "lines": [
            {
                "preset": line.preset,
                "count": line.count,
                "seconds": None
                if line.each is None or line.each.seconds is None
                else line.each.seconds * line.count,
                "usd": number(line.usd),
                "basis": None if line.each is None else line.each.basis,
                "preset_estimate_usd": number(_times(line.word, line.count)),
                "caveat": line.each.doubt or None if line.each else None,
                # The names of one release before.
                "preset_word_usd": number(_times(line.word, line.count)),
                "doubt": line.each.doubt or None if line.each else None,
            }
            for line in lines
        ],
        "total_usd": number(total),
        "budget_usd": None if budget is None else float(budget),
        "left_is_doubted": any(line.each is not None and bool(line.each.doubt) for line in lines),
        "left_usd": None if budget is None else number(budget - total),
    }
