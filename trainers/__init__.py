"""Training programs, each started by its path; they import nothing of ours but this package.

Importing it says how OpenMP's threads wait for each other, which has to be said before torch is
loaded: asleep. Those that spin take the time of whoever else computes on the machine and wait for
each other's turns: the small voxelization network on two threads of two cores trained in 10.6
instead of 14.3 s alone, in 19 instead of 34 s beside one busy process, and took 8 instead of one
and a half minutes beside another training. OMP_WAIT_POLICY in the environment wins.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
