"""The voxelization network: a completed point cloud in, the skull's volume out."""
