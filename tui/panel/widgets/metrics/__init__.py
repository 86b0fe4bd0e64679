"""The parts of the metrics page: curves, their pictures, the list of runs, settings and
environment.
"""
