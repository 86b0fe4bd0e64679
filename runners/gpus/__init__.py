"""What is known of the GPUs: the sampler, its readings, the use of each run."""
