"""Skull volumes, point clouds, made-up data, and metrics."""
