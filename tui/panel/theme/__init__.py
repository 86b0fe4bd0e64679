"""Colours: themes, the palette of states, and none at all."""
