"""Train the cascade under Accelerate: `train.py`, which reads what the launcher sets.

    accelerate launch --multi_gpu --num_processes=4 --mixed_precision=fp16 \\
        trainers/cascade/train_accelerate.py --config config/multi_view_config.json
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).resolve().with_name("train.py")), run_name="__main__")
