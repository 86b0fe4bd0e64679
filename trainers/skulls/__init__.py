"""Skull volumes, point clouds, made-up data, metrics and the implant pipeline."""
