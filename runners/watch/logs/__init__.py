"""Logs of any size: lines are found, filtered, searched and copied by offset, never read whole."""
