"""What is shown of runs: rows, columns, details, plans, comparison; no screen."""
