"""Logs at any size: lines found, filtered, searched and taken out by offset, never read whole."""
