"""Train the cascade under torchrun: `train.py`, with gradients averaged over all ranks.

    torchrun --nproc_per_node=4 trainers/cascade/train_distributed.py \\
        --config config/multi_view_config.json
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

from trainers.cascade.train import main

if __name__ == "__main__":
    sys.exit(main())
