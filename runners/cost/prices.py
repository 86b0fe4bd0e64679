"""Prices of GPU time with source and date: the user's own, those of an update, the shipped."""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from runners.host.files import stamp_of
from runners.model.errors import WrongInput
from runners.model.spec import Price
from runners.model.suggestions import nearest_hint
from runners.model.units import parse_duration
from runners.state.layout import SHIPPED_PRESETS, config_dir

LIST_FORMAT = 1
_MOST_ENTRIES = 2000
_MOST_USD = 10_000
_LONGEST_TEXT = 300
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_UNITS_S = {"second": 1, "minute": 60, "hour": 3600}


class PriceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of prices.yaml: US dollars per hour as decimal text, and what ends the bill.

    `billing` is the provider's unit of time, `minimum` the least it bills; empty where nobody has
    looked it up. `kind` says how soon the figure is old.
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
    billing_source: str = ""
    kind: Literal["list", "market"] = "list"

    @property
    def unit_s(self) -> int:
        """Seconds of the unit that is billed when begun; 0 where that is not known."""
        return _UNITS_S.get(self.billing.removeprefix("per "), 0)

    @property
    def minimum_s(self) -> int:
        """Seconds billed at least; 0 where that is not known."""
        return round(parse_duration(self.minimum)) if self.minimum else 0

    def __post_init__(self) -> None:
        """Raise ValueError for a unit or a minimum that cannot be reckoned with."""
        if self.billing and self.billing.removeprefix("per ") not in _UNITS_S:
            units = ", ".join(_UNITS_S)
            raise ValueError(f"billing: expected one of {units}, got {self.billing!r}")
        try:
            parse_duration(self.minimum or "0s")
        except ValueError as error:
            raise ValueError(f"minimum: {error}") from None

    @property
    def machine_size(self) -> int:
        """The number of GPUs in the machine that it is a price for: 8 for `8 × H100`."""
        counted = re.match(r"(\d+)\s*[×x]", self.gpu)
        return int(counted[1]) if counted else 1


def own_file() -> Path:
    """The prices that the user writes."""
    return config_dir() / "prices.yaml"


def updated_file() -> Path:
    """The list that `prices update` has fetched."""
    return config_dir() / "prices-list.yaml"


def list_prices() -> list[PriceEntry]:
    """Every known price, the user's own first. Raises WrongInput for a mistake in a file."""
    listed = {entry.name: entry for entry in _read_prices(SHIPPED_PRESETS / "prices.yaml")}
    if stamp := stamp_of(updated_file()):
        # The later date counts: a new release may know more than an update of last year.
        for entry in _read_prices(updated_file(), stamp=stamp):
            before = listed.get(entry.name)
            if before is None or entry.date >= before.date:
                listed[entry.name] = entry
    stamp = stamp_of(own_file())
    entries = _read_prices(own_file(), tuple(listed.values()), stamp) if stamp else []
    # The user's entry replaces the listed one of its name, also in choices and hints.
    names = {entry.name for entry in entries}
    return [*entries, *(entry for name, entry in listed.items() if name not in names)]


def check_list(path: Path) -> tuple[PriceEntry, ...]:
    """The entries of a list that others publish. Raises WrongInput where it is not whole.

    It says its format, and of every price the source, the day and a plausible amount.
    """
    from runners.presets.reading.yaml_lines import read_yaml  # few commands need any price

    values, lines = read_yaml(path)
    form = values.get("format") if isinstance(values, dict) else None
    if form != LIST_FORMAT:
        raise WrongInput(f"{path.name}: expected `format: {LIST_FORMAT}`, got {form!r}")
    entries = _read_prices(path, stamp=stamp_of(path))
    if not 0 < len(entries) <= _MOST_ENTRIES:
        raise WrongInput(f"{path.name}: expected 1 to {_MOST_ENTRIES} prices, got {len(entries)}")
    for entry in entries:
        where = f"{path.name}:{lines['prices', entry.name]}: prices.{entry.name}"
        texts = (value for value in msgspec.structs.asdict(entry).values() if value)
        if not all(text.isprintable() and len(text) <= _LONGEST_TEXT for text in texts):
            raise WrongInput(f"{where}: expected printable texts of {_LONGEST_TEXT} characters")
        if not _NAME.fullmatch(entry.name):
            raise WrongInput(f"{where}: expected letters, digits and hyphens as the name")
        if not entry.source.strip() or not entry.date:
            raise WrongInput(f"{where}: expected source and date")
        if _is_future(entry.date):
            raise WrongInput(f"{where}: date: {entry.date} is in the future")
        if not 0 < parse_rate(entry.usd_per_hour) <= _MOST_USD:
            raise WrongInput(f"{where}: usd_per_hour: {entry.usd_per_hour} cannot be a price")
    return entries


# Read once per process and change: YAML is slow.
@cache
def _read_prices(
    path: Path, known: tuple[PriceEntry, ...] = (), stamp: int = 0
) -> tuple[PriceEntry, ...]:
    """The entries of a file; one named as a `known` one may give only what differs."""
    from runners.presets.reading.yaml_lines import read_yaml  # few commands need any price

    values, lines = read_yaml(path)
    listed = values.get("prices") if isinstance(values, dict) else None
    if not isinstance(listed, dict):
        raise WrongInput(
            f"{path}: expected a mapping `prices:` of NAME: {{provider, gpu, usd_per_hour, "
            "source, date}}"
        )
    before = {entry.name: entry for entry in known}
    entries = []
    for name, keys in listed.items():
        # With the line: the file is edited by hand.
        where = f"{path}:{lines['prices', name]}: prices.{name}"
        if not isinstance(keys, dict):
            raise WrongInput(f"{where}: expected provider, gpu, usd_per_hour, source and date")
        if "currency" in keys:
            raise WrongInput(
                f"{where}: currency: every price here is in US dollars: give usd_per_hour, "
                "converted, and leave it out"
            )
        texts = {key: value if value is None else str(value) for key, value in keys.items()}
        try:
            entry = msgspec.convert(_completed(str(name), texts, before), PriceEntry)
            parse_rate(entry.usd_per_hour)
            _check_date(entry.date)
            # Not for the shipped list: a clock that is wrong must not make it unreadable.
            if known and _is_future(entry.date):
                raise ValueError(f"date: {entry.date} is in the future")
        except (msgspec.ValidationError, ValueError) as error:
            raise WrongInput(f"{where}: {error}") from None
        entries.append(entry)
    return tuple(entries)


def _completed(
    name: str, keys: Mapping[str, str | None], before: Mapping[str, PriceEntry]
) -> dict[str, Any]:
    """An entry completed from the shipped one; with a rate of one's own, not source and date."""
    known = before.get(name)
    if known is None:
        return {"name": name, **keys}
    own = {"source": "prices.yaml of your own", "date": ""} if "usd_per_hour" in keys else {}
    return {**msgspec.structs.asdict(known), **own, **keys, "name": name}


def _check_date(text: str) -> None:
    if text:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"date: expected a day such as 2026-11-20, got {text!r}") from None


def _is_future(text: str) -> bool:
    # A day's grace: the list may come from where it is tomorrow already.
    today = date.fromtimestamp(time.time())
    return bool(text) and date.fromisoformat(text) > today + timedelta(days=1)


def parse_rate(text: str) -> Decimal:
    """Dollars per hour in `1.99` or `$1.99`. Raises ValueError when it is no such amount."""
    stripped = text.strip().removeprefix("$").removesuffix("/h").strip()
    if not re.fullmatch(r"\d{1,12}(\.\d{1,60})?", stripped):
        # `1,000` is a thousand to some and one to others: nothing is guessed.
        plain = ", without `,` and `_`" if re.fullmatch(r"[\d.]*[,_][\d.,_]*", stripped) else ""
        raise ValueError(f"expected US dollars per hour such as 1.99{plain}, got {text!r}")
    return Decimal(stripped)


def is_amount(text: str) -> bool:
    """Whether a price is stated as dollars per hour, and not by a name."""
    try:
        parse_rate(text)
    except ValueError:
        return False
    return True


def choose_price(
    text: str,
    basis: Literal["preset", "flag", "session"],
    per: Literal["gpu", "machine"] = "gpu",
    known: Sequence[PriceEntry] | None = None,
) -> Price:
    """The Price for a name in prices.yaml or an amount per hour. Raises WrongInput for neither.

    `known` are the prices of another machine.
    """
    # Before the list is read: an amount must work even when prices.yaml has a mistake.
    if is_amount(text):
        return Price(str(parse_rate(text)), per, basis)
    entries = {entry.name: entry for entry in (list_prices() if known is None else known)}
    found = entries.get(text)
    if found is None and re.match(r"\$?\s*\d", text) and not nearest_hint(text, entries):
        try:
            parse_rate(text)
        except ValueError as error:
            raise WrongInput(str(error), "or the name of a price: `fresnel-tui prices`") from None
    if found is None:
        raise WrongInput(
            f"no price `{text}`{nearest_hint(text, entries)}",
            f"a price is US dollars per hour, or one of: {', '.join(entries)}",
        )
    return Price(
        found.usd_per_hour,
        found.per,
        basis,
        found.name,
        found.source,
        found.date,
        found.unit_s,
        found.minimum_s,
        found.kind,
    )


def find_entry(name: str, known: Sequence[PriceEntry] | None = None) -> PriceEntry | None:
    """The price of this name, or None. `known` are the prices of another machine."""
    if not name:
        return None
    entries = list_prices() if known is None else known
    return next((entry for entry in entries if entry.name == name), None)


def stopping_text(name: str) -> str:
    """What stopping and shutting down save at the provider of this price, in words."""
    entry = find_entry(name)
    if entry is None:
        return "what a shutdown saves here is not known: ask the provider"
    unit = entry.billing.removeprefix("per ")
    billed = f"; billed per {unit}" if unit else ""
    least = f", at least {entry.minimum}" if entry.minimum else ""
    source = f" ({entry.billing_source})" if entry.billing_source and (billed or least) else ""
    savings = (
        f"{entry.provider}: {entry.stop}"
        if entry.stop
        else f"{entry.provider}: what a shutdown saves is not known"
    )
    destroy = f"; {entry.destroy}" if entry.destroy else ""
    return f"{savings}{destroy}{billed}{least}{source}"


def matches_model(match: str, driver_name: str) -> bool:
    """True when a GPU that its driver calls `driver_name` is of the model that `match` describes.

    Words are compared whole: GH200 is not H200. A form factor that the driver does not name is SXM:
    NVIDIA calls an H100 SXM `H100 80GB HBM3`, and names PCIe and NVL.
    """
    named = [word.upper() for word in re.split(r"[^A-Za-z0-9]+", driver_name) if word]
    wanted = [word.upper() for word in match.split()]
    if not wanted or any(other in named and other not in wanted for other in _OTHER_MODELS):
        return False
    return all(_names(word, named) for word in wanted)


_OTHER_MODELS = ("LAPTOP", "MAX", "D", "TI", "SUPER", "ADA")
"""Words that make another model of the same number."""


def _names(word: str, named: Sequence[str]) -> bool:
    if word == "SXM":
        return "PCIE" not in named and "NVL" not in named
    if re.fullmatch(r"\d+GB", word):
        # Some drivers leave the size out of the name: then it does not speak against the match.
        sizes = [size for size in named if re.fullmatch(r"\d+GB", size)]
        return not sizes or word in sizes
    return word in named


def fitting_prices(provider: str, gpu: str, gpus: int) -> list[PriceEntry]:
    """Prices for a GPU model by its driver's name, of `provider` if known, for that many GPUs."""
    found = [entry for entry in list_prices() if matches_model(entry.match, gpu)]
    if provider:
        # By part of the name: a provider may have several offers, such as RunPod's community cloud.
        found = [entry for entry in found if provider.lower() in entry.provider.lower()]
    return [entry for entry in found if entry.per == "gpu" or entry.machine_size == gpus]


def price_caveat(entry: PriceEntry, models: Sequence[str]) -> str:
    """What speaks against this price for cards of these `models` (drivers' names), or empty."""
    cards = " and ".join(
        f"{count} × {model or 'unknown'}" for model, count in Counter(models).items()
    )
    if entry.match and not all(matches_model(entry.match, model) for model in models):
        return f"price {entry.name} is for {entry.gpu}, and this machine has {cards}"
    if entry.per == "machine" and models and entry.machine_size != len(models):
        return f"price {entry.name} is for a machine of {entry.machine_size}, this one has {cards}"
    return ""
