"""`cost plan`: what a row of runs should cost together, against a budget."""

import argparse
import re
from decimal import Decimal
from typing import Any

import msgspec

from runners.cost.prices import parse_rate
from runners.gpus.client import read_gpus
from runners.lifecycle.launch.plan_costs import estimate_on, price_of
from runners.model.errors import NotFound, WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import Estimate
from runners.model.spec import RunSpec
from runners.presets.catalogue import resolve_runs
from runners.scheduling.allocation import Allocation, awaited
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.views.format import dollars, duration
from tui.views.json_values import fields_json, number

PREFIX = "gaussian-"
"""The guide's modes have the short names that the guide gives them: `fast` is the preset
gaussian-fast.
"""


class PlanRow(msgspec.Struct, frozen=True):
    """So many runs of one preset: what they should cost in all, and on what ground."""

    preset: str
    count: int
    each: Estimate | None
    preset_usd: Decimal | None
    """What the preset itself says, for all of them."""

    @property
    def usd(self) -> Decimal | None:
        """Dollars for all of them; None when nobody knows."""
        if self.each is None or self.each.usd is None:
            return None
        return self.count * Decimal(self.each.usd)

    @property
    def seconds(self) -> float | None:
        """Seconds for all of them, one after the other; None when nobody knows."""
        if self.each is None or self.each.seconds is None:
            return None
        return self.count * self.each.seconds

    @property
    def caveat(self) -> str:
        """What speaks against the estimate; empty when nothing does."""
        return self.each.doubt if self.each is not None else ""


def run_plan(arguments: argparse.Namespace) -> None:
    """Print the budget table of `PRESET:COUNT …`."""
    if not " ".join(arguments.planned).strip(" ,"):
        raise WrongInput(
            "cost plan: name what to plan",
            "fresnel-tui cost plan 'validate:1 fast:4 standard:2' --budget 100",
        )
    try:
        budget = None if arguments.budget is None else parse_rate(arguments.budget)
    except ValueError:
        raise WrongInput(f"--budget {arguments.budget}: expected US dollars such as 100") from None
    lines = plan_lines(StateDirectory(), " ".join(arguments.planned))
    if arguments.json:
        print_json(_json(lines, budget))
        return
    _print(lines, budget)


def plan_lines(state: StateDirectory, text: str) -> list[PlanRow]:
    """The estimates for `PRESET:COUNT …` here, at the session's price, else the preset's own."""
    wanted = [_parse(word) for word in re.split(r"[\s,]+", text.strip()) if word]
    reading: GpuReading | None = None
    found = []
    for name, count in wanted:
        for spec in _specs(name):
            if reading is None and spec.gpus.wants_gpus:
                reading = read_gpus(state)
            # As if it waited for them: whoever holds them now.
            gpus = awaited(spec.gpus, reading)
            if not gpus.awaited:
                gpus = Allocation()
            each = estimate_on(state, spec, gpus, price_of(state, spec))
            usd = None if spec.estimate.usd is None else count * Decimal(spec.estimate.usd)
            found.append(PlanRow(spec.preset, count, each, usd))
    return found


def _parse(word: str) -> tuple[str, int]:
    name, _, count = word.rpartition(":") if ":" in word else (word, "", "1")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,5}", count):
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


def _print(lines: list[PlanRow], budget: Decimal | None) -> None:
    total = Decimal(0)
    rows = []
    for line in lines:
        total += line.usd or 0
        left = "over it" if budget is not None and total > budget else ""
        rows.append(
            (
                f"{line.preset} × {line.count}",
                duration(line.seconds),
                dollars(line.usd),
                dollars(total),
                left or dollars(None if budget is None else budget - total),
                dollars(line.preset_usd),
                "nothing is known" if line.each is None else line.each.basis,
            )
        )
    print_table(("runs", "GPU time", "cost", "total", "left", "preset says", "estimate"), rows)
    for line in lines:
        if line.caveat:
            echo(f"{line.preset}: {line.caveat}")
    unknown = [line.preset for line in lines if line.usd is None]
    if unknown:
        echo(f"not counted, because its cost is not known: {', '.join(unknown)}")
    if budget is not None:
        rest = budget - total
        text = f"{dollars(rest)} are left" if rest >= 0 else f"that is {dollars(-rest)} too much"
        doubted = [line.preset for line in lines if line.caveat]
        if doubted:
            text += f" if the doubted estimates of {', '.join(doubted)} hold"
        echo(f"of {dollars(budget)}, {text}; estimates of GPU time, without idle time")


def _json(lines: list[PlanRow], budget: Decimal | None) -> dict[str, Any]:
    total = sum((line.usd for line in lines if line.usd is not None), Decimal(0))
    return {
        "lines": [
            {
                **fields_json(line, "preset", "count", "seconds"),
                "usd": number(line.usd),
                "basis": None if line.each is None else line.each.basis,
                "preset_estimate_usd": number(line.preset_usd),
                "caveat": line.caveat or None,
            }
            for line in lines
        ],
        "total_usd": number(total),
        "budget_usd": None if budget is None else float(budget),
        "left_is_doubted": any(line.caveat for line in lines),
        "left_usd": None if budget is None else number(budget - total),
    }
