"""Finding the largest batch that fits by trying."""
