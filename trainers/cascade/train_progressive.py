"""Train the cascade on one GPU or a CPU, under the guide's name: `train.py` started by python.

python trainers/cascade/train_progressive.py --config config/single_view_config.json
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).resolve().with_name("train.py")), run_name="__main__")
