"""Verifying a run before its launch: facts are collected, then judged."""
