"""Verifying a run before its launch: collects facts, has them judged."""
