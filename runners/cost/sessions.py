"""A session: a rented machine's billing period, from its boot or a stated start; one per host."""

from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from runners.cost.preemption import taken_at, unsettled_preemption, write_preemption
from runners.cost.rates import hourly_rate, price_age
from runners.cost.timeline import Timeline
from runners.host.clock import Moment, local_time, moment_now
from runners.host.files import append_line, replace
from runners.host.identity import host_name
from runners.model.errors import NotFound, WrongInput
from runners.model.spec import AMOUNT, Price
from runners.state.decoding import json_decoder, read
from runners.state.layout import StateDirectory


class Session(msgspec.Struct, frozen=True):
    """An open or ended session; money as decimal text, `started` and `ended` in unix seconds.

    `began` and `finished` are the same moments with the boot's own time. `uuids` are the machine's
    GPUs as found at its start: empty on a machine without any.
    """

    started: float
    host: str
    price: Price
    gpus: int = 1
    budget: str | None = None
    ended: float | None = None
    id: str = ""
    began: Moment | None = None
    finished: Moment | None = None
    uuids: tuple[str, ...] = ()
    provider: str = ""
    instance: str = ""
    stopping: str = ""
    caveat: str = ""
    """What speaks against its rate: a price that does not fit, GPUs that could not be read."""

    def __post_init__(self) -> None:
        """Raise ValueError for a budget that is no amount: the file is damaged then."""
        if self.budget is not None and not AMOUNT.fullmatch(self.budget):
            raise ValueError(f"expected US dollars as the budget, got {self.budget[:40]!r}")

    @property
    def rate(self) -> Decimal:
        """Dollars per hour for the whole machine."""
        return hourly_rate(self.price, max(self.gpus, 1))

    @property
    def start(self) -> Moment:
        """When it began."""
        return self.began or Moment(self.started)

    @property
    def end(self) -> Moment | None:
        """When it ended; None while it is open."""
        # Old files have wall times only.
        return self.finished or (None if self.ended is None else Moment(self.ended))

    @property
    def price_per_gpu(self) -> Price:
        """What one of its GPUs costs a run launched in it; the machine, where it has none."""
        # A price of the whole machine is divided: a run pays for the GPUs it holds.
        share = self.rate / max(self.gpus, 1)
        per: Literal["gpu", "machine"] = "gpu" if self.has_gpus else "machine"
        return msgspec.structs.replace(
            self.price, usd_per_hour=str(share), per=per, basis="session"
        )

    @property
    def has_gpus(self) -> bool:
        """False on a machine without GPUs, where a run on the CPU holds the machine."""
        return bool(self.uuids) or self.gpus > 1

    @property
    def old_price(self) -> str:
        """How old its price is, in words, when it is too old to be trusted; else empty."""
        return price_age(self.price)

    def describe(self) -> str:
        """The rate and where it comes from, in words."""
        source = (
            f"{self.price.name}, {self.price.source}, {self.price.date}"
            if self.price.name
            else "given by hand"
        )
        source += f", {self.old_price}" if self.old_price else ""
        made_up = "simulated " if any(uuid.startswith("SIM-") for uuid in self.uuids) else ""
        gpus = f"{max(self.gpus, 1)} {made_up}GPU{'s' if self.gpus > 1 else ''}"
        return f"session rate ${self.rate:,}/h for {gpus} ({source}); estimate of GPU time"


class SessionLine(msgspec.Struct, frozen=True, tag_field="type", tag="session"):
    """A session in the ledger, written when it starts, changes and ends; its last line counts."""

    session: Session


json_decoder(Session)


def read_session(state: StateDirectory) -> Session | None:
    """The open session of this host, or None; also None when the file is damaged."""
    session = load_session(state)
    return session if session is not None and session.ended is None else None


def load_session(state: StateDirectory, host: str | None = None) -> Session | None:
    """The session in session.json of a host (this one), open or just ended; None if damaged.

    Of this machine, one that the provider has taken away and given back has ended with that.
    """
    if host not in {None, host_name()}:
        return read(state.host.parent / str(host) / state.session.name, Session)
    session = read(state.session, Session)
    # Derived, and not only written down: who may not write sees the same.
    gone = None if session is None or session.end else taken_at(state, session.start)
    return session if session is None or gone is None else _ended(session, gone)


def settle_preemption(state: StateDirectory) -> bool:
    """Write down the end of a session that went with the machine; True when there was one."""
    found = unsettled_preemption(state)
    if found is None:
        return False
    session = load_session(state)
    with suppress(OSError):  # a full disk: tried again by the next command
        is_its = session is not None and session != read(state.session, Session)
        if session is not None and is_its:
            _write(state, session)
        write_preemption(state, msgspec.structs.replace(found, settled=True))
        return is_its
    return False


def is_damaged(state: StateDirectory) -> bool:
    """True when there is a session file that cannot be read: the cost is then unknown."""
    return state.session.exists() and load_session(state) is None


def start_session(
    state: StateDirectory,
    price: str,
    gpus: int,
    since: str = "boot",
    budget: str | None = None,
    per: Literal["gpu", "machine"] = "gpu",
    uuids: tuple[str, ...] = (),
    provider: str = "",
    instance: str = "",
    caveat: str = "",
) -> Session:
    """Open a session at a price name or rate, from `boot`, `now` or an ISO time.

    `per` says what a bare rate is for: each of the `gpus`, or the whole machine. A session
    since boot begins where the one before it ended, if that is later: no minute is paid
    twice. Raises WrongInput when one is open, and for a bad price, time or budget; OSError
    when it cannot be written.
    """
    # Only here: the meter, which imports this module, reads no price list.
    from runners.cost.prices import choose_price, stopping_text

    settle_preemption(state)
    before = load_session(state)
    if before is not None and before.ended is None:
        raise WrongInput("a session is open already", "`fresnel-tui session end` ends it")
    chosen = choose_price(price, "session", per)
    now = moment_now()
    began = _after(before, _parse_since(since, now), since, now)
    session = Session(
        started=began.wall,
        host=host_name(),
        price=chosen,
        gpus=gpus,
        budget=parse_budget(budget),
        id=f"{local_time(began.wall, '%Y%m%d-%H%M%S')}-{host_name()}",
        began=began,
        uuids=uuids,
        provider=provider,
        instance=instance,
        stopping=stopping_text(chosen.name),
        caveat=caveat,
    )
    return _write(state, session)


def begin_since_boot(state: StateDirectory, now: Moment) -> Moment:
    """When a session would begin that is opened now, since boot; or the end of the one before."""
    return _after(load_session(state), _parse_since("boot", now), "boot", now)


def end_session(state: StateDirectory) -> Session:
    """End the open session now. Raises NotFound when there is none."""
    return _write(state, _ended(_open_session(state), moment_now()))


def _ended(session: Session, at: Moment) -> Session:
    return msgspec.structs.replace(session, ended=at.wall, finished=at)


def change_budget(state: StateDirectory, budget: str) -> Session:
    """Give the open session another budget, in US dollars.

    Raises NotFound when no session is open, WrongInput for something that is not an amount.
    """
    return _write(state, msgspec.structs.replace(_open_session(state), budget=parse_budget(budget)))


def change_price(
    state: StateDirectory,
    price: str,
    per: Literal["gpu", "machine"] = "gpu",
    gpus: int | None = None,
    caveat: str = "",
    earlier: Session | None = None,
) -> Session:
    """Correct the price of the open session, the one that ended last, or an `earlier` one.

    It holds for all of the session, and for no other. `price` is a name in prices.yaml or US
    dollars per hour; of an amount, `per` says for what.
    Raises NotFound when there is no session, WrongInput for something that is not a price.
    """
    from runners.cost.prices import choose_price, stopping_text

    current = load_session(state)
    session = earlier or current
    if session is None:
        raise NotFound("no session is open", "`fresnel-tui session start --price NAME` opens one")
    chosen = choose_price(price, "session", per)
    corrected = msgspec.structs.replace(
        session,
        price=chosen,
        gpus=gpus or session.gpus,
        stopping=stopping_text(chosen.name),
        caveat=caveat,
    )
    if current is not None and (current.id, current.began) == (session.id, session.began):
        return _write(state, corrected)
    append_line(state.ledger, msgspec.json.encode(SessionLine(corrected)))
    return corrected


def _open_session(state: StateDirectory) -> Session:
    session = read_session(state)
    if session is None:
        raise NotFound("no session is open", "`fresnel-tui session start --price NAME` opens one")
    return session


def parse_budget(text: str | None) -> str | None:
    """A budget as a session keeps it, US dollars as decimal text; WrongInput for no amount."""
    from runners.cost.prices import parse_rate

    try:
        return None if text is None else str(parse_rate(text))
    except ValueError:
        raise WrongInput(f"--budget {text}: expected US dollars such as 100") from None


def _parse_since(text: str, now: Moment) -> Moment:
    up = now.boot_ns or 0
    if text == "boot":
        return Moment(now.wall - up / 1e9, now.boot, 0)
    if text == "now":
        return now
    try:
        wall = datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise WrongInput(
            f"--since {text}: expected boot, now, or a time such as 2026-11-20T14:00"
        ) from None
    if wall > now.wall:
        raise WrongInput(f"--since {text}: that is in the future")
    # By this boot's own time, negative before it began: the clock may change, the money not.
    return Moment(wall, now.boot, up - round((now.wall - wall) * 1e9))


def _after(before: Session | None, began: Moment, since: str, now: Moment) -> Moment:
    """`began`, or the later end of the session before. WrongInput when a stated time overlaps."""
    end = before.end if before is not None else None
    if end is None:
        return began
    timeline = Timeline([end, began, now])
    if timeline.place(end) > timeline.place(now) and now.boot_ns is not None:
        # By a clock that was fast in another boot: it ended before this one began.
        end = Moment(now.wall - now.boot_ns / 1e9, now.boot, 0)
        timeline = Timeline([end, began, now])
    if timeline.place(began) >= timeline.place(end):
        return began
    if since != "boot":
        ended = local_time(end.wall, "%Y-%m-%dT%H:%M:%S")
        raise WrongInput(
            f"--since {since}: the session before it ended at {ended}",
            f"for example --since {ended}",
        )
    return end


def _write(state: StateDirectory, session: Session) -> Session:
    """Write the session to its own file and append it to the ledger."""
    state.create()
    # Its own file first: it is what counts, and the ledger's line can be made from it.
    replace(state.session, msgspec.json.encode(session))
    append_line(state.ledger, msgspec.json.encode(SessionLine(session)))
    return session
