"""The owner of one run: a small process that uses only the standard library and `host`."""
