"""Rented machines in the panel: their links, what they show, their runs' logs."""
