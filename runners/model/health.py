"""How a live run is doing: one condition, in words, with the evidence it rests on."""

import msgspec

from runners.model.closed import TextEnum


class Condition(TextEnum):
    """What a run is doing, as far as can be seen from outside. The gravest come first."""

    STALL = "possible stall"
    NOT_FINITE = "loss not finite"
    DIVERGING = "loss diverging"
    SPIKES = "loss spikes"
    NOISY = "loss noisy"
    UNFINISHED = "will not finish"
    DATA = "waits for data"
    SLOW = "slow"
    EXPECTATION = "not as expected"
    FLAT = "loss flat"
    BELOW = "below the baseline"
    INPUT = "waits for input"
    PAUSED = "paused"
    SILENT = "silent"
    PROGRESSING = "progressing"
    WARMING = "warming up"

    @property
    def advice(self) -> str:
        """What to change, in a sentence; empty where there is nothing to say."""
        return _ADVICE.get(self, "")

    @property
    def remedies(self) -> tuple[str, ...]:
        """Remedies by their names (`fresnel-tui remedy`) once the run has ended."""
        return _REMEDIES.get(self, ())

    @property
    def is_trouble(self) -> bool:
        """True for what somebody should be alerted to."""
        quiet = (Condition.INPUT, Condition.PAUSED, Condition.SILENT)
        return self.is_remarkable and self not in quiet

    @property
    def is_remarkable(self) -> bool:
        """True for what the row of a run says: all but that it goes its way."""
        return self not in (Condition.PROGRESSING, Condition.WARMING)


_ADVICE = {
    Condition.NOT_FINITE: "stop it; halve the learning rate, and go on from an earlier checkpoint",
    Condition.DIVERGING: "lower the learning rate by 30-50 %, or by the square root rule",
    Condition.SPIKES: "lower the learning rate by 30-50 %, clip gradients, or warm the rate up",
    Condition.NOISY: "a larger batch on each GPU, or a lower learning rate",
    Condition.UNFINISHED: "have its limit raised, or resume it from its newest checkpoint",
    Condition.DATA: "more loader processes, faster storage, or data kept in memory",
    Condition.FLAT: "a higher learning rate, or a warm-up to one; check that data and targets fit",
    Condition.BELOW: "train longer, or check data and learning rate",
}
_REMEDIES = {
    Condition.NOT_FINITE: ("half-rate", "earlier-checkpoint"),
    Condition.DIVERGING: ("sqrt-rate", "half-rate", "earlier-checkpoint"),
    Condition.SPIKES: ("half-rate", "sqrt-rate"),
    Condition.NOISY: ("half-rate",),
    Condition.DATA: ("more-workers",),
}


class RankSign(msgspec.Struct, frozen=True):
    """What one rank does; None where something is not known.

    `cpu_percent` is in percent of one core lately, `line_age_s` the seconds since its last line,
    where its lines can be told from those of others.
    """

    label: str
    pid: int
    state: str
    rank: int | None = None
    cpu_percent: float | None = None
    line_age_s: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """One condition that holds now: a sentence, and what it rests on."""

    condition: Condition
    message: str
    evidence: tuple[str, ...] = ()


class Health(msgspec.Struct, frozen=True):
    """health.json: the gravest condition of a live run.

    It holds since `since` and was judged at `time` (unix seconds); `also` are others that hold,
    `stacks` the folder of stacks saved for it, `eta_s` the seconds until its last step, if known.
    """

    condition: Condition
    message: str
    since: float
    time: float
    attempt: int = 1
    evidence: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    ranks: tuple[RankSign, ...] = ()
    absent: tuple[int, ...] = ()
    stacks: str = ""
    eta_s: float | None = None

    @property
    def sentence(self) -> str:
        """`possible stall: silent for 12m05s`; of a hung collective, first who is awaited."""
        name = str(self.condition)
        if self.absent and self.evidence:
            return f"{name}: {self.evidence[0]}; {self.message}"
        return self.message if self.message.startswith(name) else f"{name}: {self.message}"
