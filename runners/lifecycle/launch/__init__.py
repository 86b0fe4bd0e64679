"""From a RunSpec to the exact command: planning, launchers, provenance, dispatch."""
