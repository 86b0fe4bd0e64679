"""Random faults of a real Slurm over runs of ours: none lost, none told wrong, none started twice.

    python tests/bench/slurm_faults.py                  200 faults over 200 runs
    python tests/bench/slurm_faults.py --faults 40 --seed 7

Ten runs and ten faults at a time, on a cluster of two nodes: daemons are killed or hang, a node
crashes, its spool is full, its clock is wrong, the login node is lost, squeue hangs, jobs are
cancelled, put back, preempted, bodies and programs killed (tests/slurm/faults.py).
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.slurm.lab import PATH, running_lab, why_not  # noqa: E402

_AT_ONCE = 10


def main() -> int:
    """Do them; 1 when something does not hold, 2 where no Slurm can be started."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if why_not():
        print(why_not())
        return 2
    begun, faults, endings = time.monotonic(), Counter[str](), Counter[str]()
    problems: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", nodes=2, is_frail=True) as lab,
    ):
        os.environ |= {
            "PATH": PATH,
            "SLURM_CONF": str(lab.conf),
            "FRESNEL_STATE_DIR": f"{folder}/state",
            "FRESNEL_GPUS": "none",
        }
        from tests.process.conftest import CommandLine  # it takes the state folder that is set now
        from tests.slurm.cluster import Cluster
        from tests.slurm.faults import Trial

        cluster = Cluster(lab, CommandLine(Path(folder)))
        for number in range(-(-chosen.faults // _AT_ONCE)):
            report = Trial(cluster, chosen.seed + number).run(_AT_ONCE, _AT_ONCE)
            faults, endings = faults + report.faults, endings + report.endings
            problems += report.problems
            print(*report.problems, sep="\n", flush=True)
            print(f"{faults.total()} faults, {endings.total()} runs, {len(problems)} problems")
        lab.clear()
        cluster.close()
    seconds = time.monotonic() - begun
    print(f"{seconds:.0f} s, load {os.getloadavg()[0]:.1f}; {dict(faults)}; {dict(endings)}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
