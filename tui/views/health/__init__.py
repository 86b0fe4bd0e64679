"""What is said of how a run does and why it ended; no screen."""
