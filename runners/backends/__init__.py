"""Where a run runs."""
