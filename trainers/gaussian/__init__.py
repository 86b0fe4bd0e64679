"""The Fresnel Gaussian decoder: image features in, 3D Gaussians out, drawn and compared."""
