"""PCDiff: a diffusion model on point clouds that completes a defective skull with its implant."""
