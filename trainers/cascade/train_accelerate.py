"""Train the cascade under Accelerate: `train.py`, which reads what the launcher sets.

    accelerate launch --multi_gpu --num_processes=4 --mixed_precision=fp16 \\
        trainers/cascade/train_accelerate.py --config config/multi_view_config.json
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
