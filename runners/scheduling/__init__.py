"""Decisions about which run starts where and when: pure functions."""
