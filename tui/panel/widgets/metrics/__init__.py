"""The parts of the metrics page: curves, their charts, the list of runs, settings and
environment.
"""
