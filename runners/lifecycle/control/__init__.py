"""The use cases: what front ends ask of runs. One file per action."""
