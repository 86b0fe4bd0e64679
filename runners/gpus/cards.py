"""What a provider bills: cards. A MIG instance, or an AMD partition, is a fraction of one."""

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from runners.model.gpus import GpuSnapshot

_SLICES = re.compile(r"(\d+)g\.")
_OF = re.compile(r"\d+/(\d+)$")


class CardPart(NamedTuple):
    """A card, and which part of it as numerator and denominator."""

    card: str
    part: tuple[int, int] = (1, 1)


def card_of(gpu: GpuSnapshot) -> str:
    """The card that a GPU, an instance or a partition is of: its UUID, or where it sits."""
    if gpu.mig_parent is not None:
        return gpu.mig_parent
    if gpu.partition is not None and gpu.pci is not None:
        return gpu.pci
    return gpu.uuid


def list_cards(gpus: Iterable[GpuSnapshot]) -> tuple[str, ...]:
    """Every card once, in the order of the reading."""
    return tuple(dict.fromkeys(card_of(gpu) for gpu in gpus))


def card_models(gpus: Sequence[GpuSnapshot]) -> list[str]:
    """The model of every card as its driver names it; a partition's name begins with its card's."""
    first: dict[str, str] = {}
    for gpu in gpus:
        if gpu.mig_parent is None:
            first.setdefault(card_of(gpu), gpu.name)
    return [first.get(card, "") for card in list_cards(gpus)]


def fraction_of(gpu: GpuSnapshot, gpus: Iterable[GpuSnapshot]) -> Fraction:
    """Which part of its card `gpu` is: by compute slices (`3g.40gb`: 3), else memory, or alike."""
    if gpu.partition is not None and (count := _OF.search(gpu.partition)):
        return Fraction(1, int(count[1]))
    if gpu.mig_parent is None:
        return Fraction(1)
    siblings = [other for other in gpus if other.mig_parent == gpu.mig_parent] or [gpu]
    for weigh in (_slices, _memory):
        weights = [weigh(other) for other in siblings]
        if all(weights):
            return Fraction(weigh(gpu), sum(weights))
    return Fraction(1, len(siblings))


def part_of(gpu: GpuSnapshot, gpus: Iterable[GpuSnapshot]) -> CardPart:
    """What a run that holds `gpu` holds of which card."""
    fraction = fraction_of(gpu, gpus)
    return CardPart(card_of(gpu), (fraction.numerator, fraction.denominator))


def _slices(gpu: GpuSnapshot) -> int:
    found = _SLICES.search(gpu.name)
    return int(found[1]) if found else 0


def _memory(gpu: GpuSnapshot) -> int:
    return gpu.memory_total or 0
