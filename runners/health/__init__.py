"""How a live run is doing: evidence, judgement, and when to report it."""
