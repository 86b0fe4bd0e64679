"""The guides' name for PCDiff's sampler; see sample.py beside it.

    python trainers/pcdiff/test_completion.py --path test.csv --dataset SkullBreak \
        --model epoch_14999.pth --eval_path results --num_ens 5
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    trainer = Path(__file__).resolve().with_name("sample.py")
    sys.argv[0] = str(trainer)
    runpy.run_path(str(trainer), run_name="__main__")
