"""A curve in one line of text."""

_SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(values: tuple[float, ...], width: int) -> str:
    """`values` in `width` cells: each the mean of its share, scaled between least and most."""
    finite = [value for value in values if value == value]
    if len(finite) < 2 or width < 1:
        return ""
    width = min(width, len(finite))
    means = []
    for i in range(width):
        share = finite[i * len(finite) // width : (i + 1) * len(finite) // width]
        means.append(sum(share) / len(share))
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((value - low) / span * 7)] for value in means)
