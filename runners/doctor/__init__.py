"""Checks of the machine, the state folder and the login."""
