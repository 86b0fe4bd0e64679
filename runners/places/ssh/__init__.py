"""Rented machines, reached by ssh: which there are, the link to each, setting up, copying."""
