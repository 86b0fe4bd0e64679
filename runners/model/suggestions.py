"""What was perhaps meant by a word that is not known."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], most: int = 2) -> list[str]:
    """The known words that are like `word`, the likest first; none when none is."""
    from difflib import get_close_matches  # only mistakes need it

    return get_close_matches(word, list(known), most)


def did_you_mean(word: str, known: Iterable[str], most: int = 2) -> str:
    """A question that names what is nearest to `word`; empty when nothing is near."""
    near = nearest(word, known, most)
    return f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""


def nearest_hint(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` when one of `known` is close to `word`, else nothing."""
    hint = did_you_mean(word, known, 1)
    return f"; {hint}" if hint else ""
