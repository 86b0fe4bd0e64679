"""What several trainers share: events, stopping, checkpoints, and working in several processes."""
