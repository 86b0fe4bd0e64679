"""Where a run may live: here, a machine reached by ssh, a cluster."""
