"""What it costs: prices, sessions, the meter."""
