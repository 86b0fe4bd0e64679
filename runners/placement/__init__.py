"""Which GPUs there are, who holds them, and who gets them next."""
