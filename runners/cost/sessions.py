"""A session: a rented machine's billing period, from its boot or a stated start until it is ended."""

import time
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from runners.host.files import write_whole
from runners.host.identity import boot_time, host_name
from runners.model.errors import NotFound, WrongInput
from runners.model.paths import StateDirectory
from runners.model.spec import Price

_HOUR = Decimal(3600)


class Session(msgspec.Struct, frozen=True):
    """An open or ended session; times in unix seconds, money as decimal text."""

    started: float
    host: str
    price: Price
    gpus: int = 1
    budget: str | None = None
    ended: float | None = None

    @property
    def rate(self) -> Decimal:
        """Dollars per hour for the whole machine."""
        per_hour = Decimal(self.price.usd_per_hour)
        return per_hour * max(self.gpus, 1) if self.price.per == "gpu" else per_hour

    def cost(self, now: float) -> Decimal:
        """Dollars from its start until `now` or its end."""
        end = self.ended if self.ended is not None else now
        return self.rate * Decimal(repr(max(0.0, end - self.started))) / _HOUR

    def describe(self) -> str:
        """The rate and where it comes from, in words."""
        source = f"{self.price.name}, {self.price.source}, {self.price.date}" if self.price.name else "given by hand"
        return f"session rate ${self.rate}/h for {max(self.gpus, 1)} GPU ({source}); estimate of GPU time"


def read_session(state: StateDirectory) -> Session | None:
    """The open session of this state folder, or None."""
    try:
        session = msgspec.json.decode(state.session.read_bytes(), type=Session)
    except (OSError, msgspec.DecodeError):
        return None
    return session if session.ended is None else None


def start_session(
    state: StateDirectory,
    price: str,
    gpus: int,
    since: str = "boot",
    budget: str | None = None,
    per: Literal["gpu", "machine"] = "gpu",
) -> Session:
    """Open a session at a price name or rate from `boot`, `now` or an ISO time; WrongInput when one is open.

    `per` says what a bare rate stands for: each of the `gpus`, or the whole machine.
    """
    from runners.cost.prices import choose_price, parse_rate  # only here: the meter reads no price list

    if read_session(state) is not None:
        raise WrongInput("a session is open already", "`fresnel-tui session end` ends it")
    started = _parse_since(since)
    try:
        limit = None if budget is None else str(parse_rate(budget))
    except ValueError:
        raise WrongInput(f"--budget {budget}: expected US dollars such as 100") from None
    session = Session(started, host_name(), choose_price(price, "session", per), gpus, limit)
    _write(state, session)
    return session


def end_session(state: StateDirectory) -> Session:
    """End the open session now; NotFound when there is none."""
    session = read_session(state)
    if session is None:
        raise NotFound("no session is open", "`fresnel-tui session start --price NAME` opens one")
    ended = msgspec.structs.replace(session, ended=time.time())
    _write(state, ended)
    return ended


def _parse_since(text: str) -> float:
    if text == "boot":
        return boot_time()
    if text == "now":
        return time.time()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongInput(f"--since {text}: expected boot, now, or a time such as 2026-11-20T14:00") from None
    if moment.timestamp() > time.time():
        raise WrongInput(f"--since {text}: that is in the future")
    return moment.timestamp()


def _write(state: StateDirectory, session: Session) -> None:
    state.create()
    write_whole(state.session, msgspec.json.encode(session))
