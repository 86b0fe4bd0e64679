"""Is this machine fit for this run, and what went wrong when it was not."""
