"""The Hybrid-ViT cascade: two X-rays in, a CT volume out, refined in stages by diffusion."""
