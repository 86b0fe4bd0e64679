"""Train the cascade under torchrun: `train.py`, with gradients averaged over all ranks.

    torchrun --nproc_per_node=4 trainers/cascade/train_distributed.py \\
        --config config/multi_view_config.json
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).resolve().with_name("train.py")), run_name="__main__")
