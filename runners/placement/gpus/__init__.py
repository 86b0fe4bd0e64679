"""One module for each way to read GPUs; `detect` chooses among them, only the sampler process opens one."""
