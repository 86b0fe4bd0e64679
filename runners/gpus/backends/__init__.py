"""One file per maker of GPUs; all of them run in the sampler process only."""
