"""Remedies for an ended run: each turns its spec into another, shown as a diff before it runs."""
