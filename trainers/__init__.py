"""Training programs, each started by its path; they import nothing of ours but this package."""
