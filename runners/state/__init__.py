"""The run directory and everything read from it: layout, status, leases, trust."""
