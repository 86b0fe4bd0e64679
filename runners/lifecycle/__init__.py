"""A run's life: planned, launched, supervised, stopped, adopted, found again."""
