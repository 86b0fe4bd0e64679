"""How a live run is doing, for people and for scripts."""

from runners.model.health import Health, RankSign
from tui.views.format import duration

_MOST_RANKS = 16


def health_remark(health: Health | None) -> str:
    """What a live run does, for its row; empty while it progresses or warms up."""
    if health is None or not health.condition.is_remarkable:
        return ""
    return f"⚠ {health.sentence}" if health.condition.is_trouble else health.sentence


def health_pairs(health: Health | None) -> list[tuple[str, str]]:
    """A run's health as names and values; nothing where nobody has judged it."""
    if health is None:
        return []
    pairs = [("doing", health_remark(health) or health.message)]
    pairs += [("evidence", line) for line in health.evidence]
    pairs += [("also", line) for line in health.also]
    if len(health.ranks) > 1:
        pairs += [(rank.label, rank_text(rank)) for rank in health.ranks[:_MOST_RANKS]]
    if health.stacks:
        pairs.append(("stacks", health.stacks))
    return pairs


def rank_text(rank: RankSign) -> str:
    """`pid 4711, runs, 98 % CPU, last line 4s ago`."""
    parts = [f"pid {rank.pid}", rank.state]
    if rank.cpu_percent is not None:
        parts.append(f"{rank.cpu_percent:.0f} % CPU")
    if rank.line_age_s is not None:
        parts.append(f"last line {duration(rank.line_age_s)} ago")
    return ", ".join(parts)
