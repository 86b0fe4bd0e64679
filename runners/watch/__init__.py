"""What a run reports: its output, its events, and its metrics."""
