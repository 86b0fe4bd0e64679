"""What runs say of themselves, as numbers over steps and time, wherever they say it."""
