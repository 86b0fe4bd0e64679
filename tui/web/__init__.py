"""The panel in a browser: who is let in, one panel process for each page, and the driver between
them.
"""
