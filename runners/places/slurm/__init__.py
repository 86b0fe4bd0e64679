"""Jobs of this machine's Slurm that were not launched here, as a place beside it."""
