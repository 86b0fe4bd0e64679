"""What is shown of metrics: curves, scales, charts, pictures; no screen."""
