"""From defective skulls to implants: the programs of skulls, PCDiff and voxelization in a row."""
