"""What was perhaps meant by a word that is not known."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], most: int = 2) -> str:
    """A question that names what is nearest to `word`; empty when nothing is near."""
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(word, list(known), most)
    return f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
