"""What runs report about themselves, as numbers over steps and time, from any source."""
