"""Training programs, each started by its path; they import nothing of ours but this package.

Importing it says how OpenMP's threads wait for each other, which has to be said before torch is
loaded: asleep. Those that spin take the time of whoever else computes on the machine and wait for
each other's turns: beside one busy process the small voxelization network on two threads of two
cores trained in 19 instead of 34 s (alone 8.6 and 9.7 instead of 7.7 and 9.2), and spinning
`skull-both-tiny` took 9 minutes beside another training. OMP_WAIT_POLICY in the environment wins.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
