"""Pictures in the terminal: painted in cells, by half blocks or by the terminal's own graphics."""
