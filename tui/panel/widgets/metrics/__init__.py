"""The parts of the metrics page: curves, charts, the list of runs, settings and environment."""
