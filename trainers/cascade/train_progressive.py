"""Train the cascade on one GPU or a CPU, under the guide's name: `train.py` started by python.

python trainers/cascade/train_progressive.py --config config/single_view_config.json
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
