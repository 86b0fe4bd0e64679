"""Prices: estimates of GPU time, each with its source and date, shipped in presets/prices.yaml.

The user's own `prices.yaml` in the configuration folder comes first.
"""

import difflib
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from runners.model.errors import WrongInput
from runners.model.spec import Price
from runners.presets.reading.yaml_lines import read_yaml
from runners.state.layout import SHIPPED_PRESETS, config_dir


class PriceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of prices.yaml: US dollars per hour as decimal text; what ends the bill, and what
    does not.

    `billing` is the provider's unit of time, `minimum` the least it bills; empty where nobody has
    looked it up.
    """

    name: str
    provider: str
    gpu: str
    usd_per_hour: str
    source: str
    date: str
    per: Literal["gpu", "machine"] = "gpu"
    match: str = ""
    stop: str = ""
    shutdown: Literal["billed", "ends", "partly", ""] = ""
    destroy: str = ""
    billing: str = ""
    minimum: str = ""


def list_prices() -> list[PriceEntry]:
    """Every known price, the user's own first."""
    names: set[str] = set()
    entries = []
    for path in (config_dir() / "prices.yaml", SHIPPED_PRESETS / "prices.yaml"):
        for entry in _read_prices(path) if path.is_file() else ():
            if entry.name not in names:
                names.add(entry.name)
                entries.append(entry)
    return entries


@cache
def _read_prices(path: Path) -> tuple[PriceEntry, ...]:
    values, lines = read_yaml(path)
    listed = values.get("prices") if isinstance(values, dict) else None
    if not isinstance(listed, dict):
        raise WrongInput(
            f"{path}: expected a mapping `prices:` of NAME: {{provider, gpu, usd_per_hour, "
            "source, date}}"
        )
    entries = []
    for name, keys in listed.items():
        where = f"{path}:{lines['prices', name]}: prices.{name}"
        if not isinstance(keys, dict):
            raise WrongInput(f"{where}: expected provider, gpu, usd_per_hour, source and date")
        texts = {key: value if value is None else str(value) for key, value in keys.items()}
        try:
            entries.append(msgspec.convert({"name": name, **texts}, PriceEntry))
            parse_rate(entries[-1].usd_per_hour)
        except (msgspec.ValidationError, ValueError) as error:
            raise WrongInput(f"{where}: {error}") from None
    return tuple(entries)


def parse_rate(text: str) -> Decimal:
    """Dollars per hour in `1.99` or `$1.99`; ValueError when it is no such amount."""
    stripped = text.strip().removeprefix("$").removesuffix("/h").strip()
    if not re.fullmatch(r"\d+(\.\d+)?", stripped):
        raise ValueError(f"expected US dollars per hour such as 1.99, got {text!r}")
    return Decimal(stripped)


def choose_price(
    text: str, basis: Literal["preset", "flag", "session"], per: Literal["gpu", "machine"] = "gpu"
) -> Price:
    """The Price for a name in prices.yaml or an amount per hour; WrongInput names the nearest."""
    entries = {entry.name: entry for entry in list_prices()}
    if text in entries:
        found = entries[text]
        return Price(found.usd_per_hour, found.per, basis, found.name, found.source, found.date)
    try:
        return Price(str(parse_rate(text)), per, basis)
    except ValueError:
        close = difflib.get_close_matches(text, entries, 1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise WrongInput(
            f"no price `{text}`{hint}",
            f"a price is US dollars per hour, or one of: {', '.join(entries)}",
        ) from None


def find_entry(name: str) -> PriceEntry | None:
    """The price of this name, or None."""
    return next((entry for entry in list_prices() if entry.name == name), None) if name else None


def stopping_words(name: str) -> str:
    """What stopping and shutting down save at the provider of this price, in words."""
    entry = find_entry(name)
    if entry is None:
        return "what a shutdown saves here is not known: ask the provider"
    unit = f"; billed {entry.billing}" if entry.billing else ""
    least = f", at least {entry.minimum}" if entry.minimum else ""
    words = (
        f"{entry.provider}: {entry.stop}"
        if entry.stop
        else f"{entry.provider}: what a shutdown saves is not known"
    )
    destroy = f"; {entry.destroy}" if entry.destroy else ""
    return f"{words}{destroy}{unit}{least}"


def fitting_prices(provider: str, gpu: str, gpus: int) -> list[PriceEntry]:
    """Prices for a GPU model by the driver's name for it, of `provider` if one is known, and for
    so many GPUs.
    """
    found = [entry for entry in list_prices() if entry.match and entry.match.lower() in gpu.lower()]
    if provider:
        found = [entry for entry in found if provider.lower() in entry.provider.lower()]
    return [entry for entry in found if entry.per == "gpu" or _machine_size(entry) == gpus]


def _machine_size(entry: PriceEntry) -> int:
    counted = re.match(r"(\d+)\s*[×x]", entry.gpu)
    return int(counted[1]) if counted else 1
