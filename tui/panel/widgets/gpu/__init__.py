"""GPUs: the pane, one GPU in full, the picker of the launch form."""
