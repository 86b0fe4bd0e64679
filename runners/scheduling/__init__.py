"""Decisions about who runs where and when: pure functions."""
