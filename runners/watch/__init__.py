"""What a run says: its output, its events, the stream of changes."""
