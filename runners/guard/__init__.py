"""What acts on budgets, ages and idleness when nobody looks."""
