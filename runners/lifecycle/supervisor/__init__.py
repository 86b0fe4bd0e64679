"""The owner of one run: a small process of the standard library and `host`, by contract."""
