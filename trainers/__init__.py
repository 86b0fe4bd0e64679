"""Training programs, each started by its path; they import nothing of this project but this package."""
