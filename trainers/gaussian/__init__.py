"""The Fresnel Gaussian decoder: image features in, 3D Gaussians out, compared with the image they
draw.
"""
