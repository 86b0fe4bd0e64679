"""What is kept of a run that has ended: its last and best values, its reason, its checkpoint."""

import json
import sys
from pathlib import Path

from tests.process.conftest import CommandLine
from tests.support import eventually

PROGRAM = """
import os, sys, zipfile
for step in range(1, 3001):
    print(f"step {step}/3000 | loss: {abs(step - 2500) / 1000 + 0.5:.4f} | filler {'x' * 60}")
    if step == 10:
        print("step 10/3000 | val_acc: 0.875")
os.makedirs("ck", exist_ok=True)
with zipfile.ZipFile("ck/whole.pt", "w") as file:
    file.writestr("data", "w" * 1000)
print("Saved checkpoint to ck/whole.pt")
whole = open("ck/whole.pt", "rb").read()
open("ck/half.pt", "wb").write(whole[:500])
print("saving checkpoint to ck/half.pt", flush=True)
"""
FAILING = PROGRAM + "raise ValueError('the data is gone')\n"


def test_an_ended_run_shows_its_last_and_best_values_everywhere(cli: CommandLine) -> None:
    run = cli.launch("--gpus", "0", "--", sys.executable, "-c", FAILING)
    cli.ended(run)
    final = eventually(
        lambda: (
            (run.path / "final.json").is_file()
            and json.loads((run.path / "final.json").read_bytes())
        ),
        what="the final values",
    )
    assert final["metrics"]["loss"]["last"] == 1.0
    (listed,) = cli.json("list")
    status = cli.json("status", run.id)
    for shown in (listed, status):
        assert shown["metrics"] == {"loss": 1.0, "val_acc": 0.875}
        assert shown["best"]["loss"] == {
            "value": 0.5,
            "step": 2500,
            "axis": "step",
            "source": "output",
        }
        assert (shown["progress"]["step"], shown["progress"]["fraction"]) == (3000, 1.0)
        assert shown["reason"].startswith("ValueError: the data is gone")
        assert shown["checkpoint"]["path"] == str(cli.folder / "ck" / "whole.pt")
    text = cli.run("status", run.id).stdout
    assert "best 0.5" in text and "came too fast" not in text


def test_an_attempt_that_dies_at_once_on_a_checkpoint_is_followed_by_one_on_another(
    cli: CommandLine,
) -> None:
    program = cli.folder / "train.sh"
    # The first attempt does two steps and leaves two checkpoints; the newer one is of no use.
    program.write_text(
        'echo "$*" >> said\n'
        'if [ ! -e a.pt ]; then echo "step 1 loss: 1"; echo good > a.pt; touch -d "1 second ago" '
        "a.pt\n"
        "echo bad > b.pt; exit 1; fi\n"
        'case "$*" in *a.pt) echo "step 2 loss: 0.5"; exit 0;; *) exit 1;; esac\n'
    )
    rule = "restart={times: 3, backoff: 0.05s, arguments: ['--resume', '${checkpoint}']}"
    pattern = f"checkpoints={cli.folder}/*.pt"
    run = cli.launch("--gpus", "0", "--set", rule, "--set", pattern, "--", "sh", str(program))
    ended = cli.ended(run)
    said = (Path(cli.folder) / "said").read_text().split("\n")
    assert said[1:3] == [f"--resume {cli.folder}/b.pt", f"--resume {cli.folder}/a.pt"], said
    assert (ended["state"], ended["attempt"]) == ("done", 3)
