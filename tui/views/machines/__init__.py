"""What is shown of machines and their GPUs; no screen."""
