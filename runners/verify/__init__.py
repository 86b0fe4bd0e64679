"""Checks of a run before it is launched: pure functions over facts that others collect."""
