"""The guides' name for PCDiff's trainer; see train.py beside it.

    torchrun --nproc_per_node=8 trainers/pcdiff/train_completion.py --path train.csv \
        --dataset SkullBreak --bs 64 --lr 1.6e-3
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    trainer = Path(__file__).resolve().with_name("train.py")
    sys.argv[0] = str(trainer)
    runpy.run_path(str(trainer), run_name="__main__")
