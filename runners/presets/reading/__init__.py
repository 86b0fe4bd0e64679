"""Reading YAML with lines and units, and saying where a mistake stands."""
