"""`remedy`: the diff of an ended run's remedies, and launching it again with one of them."""

import json

from runners.diagnosis.remedy_names import REMEDIES
from runners.model.states import State
from tests.command_text import NO_MIXED_PRECISION, NO_REMEDY, NOT_ENDED, did_you_mean, impossible
from tests.process.conftest import CommandLine

PRESET = """\
launcher: command
shell: true
command: >-
  size() { while [ $# -gt 0 ]; do [ "$1" = --bs ] && echo "$2"; shift; done; };
  b=$(size "$0" "$@"); echo "batch $${b}";
  if [ "$b" -gt 4 ]; then echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has"; exit 1; fi;
  echo "conf $PYTORCH_CUDA_ALLOC_CONF"
gpus: 0
parameters: {bs: 8, lr: 2.0e-3}
scaling: {batch: bs, learning_rate: lr, rule: linear, base_batch: 4, base_rate: 1.0e-3}
"""


def preset(cli: CommandLine) -> str:
    (cli.folder / "oom.yaml").write_text(PRESET)
    return str(cli.folder / "oom.yaml")


def test_a_run_out_of_memory_goes_on_with_half_the_batch(cli: CommandLine) -> None:
    run = cli.launch(preset(cli))
    assert cli.ended(run)["state"] == "failed"
    found = cli.json("remedy", run.id)
    assert found["diagnosis"]["remedies"][:2] == ["half-batch", "accumulate"]
    by_name = {one["name"]: one for one in found["remedies"]}
    assert by_name["half-batch"]["diff"] == [
        "- --bs 8", "- --lr 0.002", "+ --bs 4", "+ --lr 0.001",
    ]  # fmt: skip
    assert (
        not by_name["accumulate"]["possible"]
        and "no parameter" in by_name["accumulate"]["obstacle"]
    )
    text = cli.run("remedy", run.id).stdout
    assert f"half-batch: {REMEDIES['half-batch']}" in text and "+ --bs 4" in text
    assert impossible(by_name["accumulate"]["obstacle"]) in text
    before = set(cli.state.runs.iterdir())
    dry = cli.run("remedy", run.id, "--apply", "half-batch", "--dry-run")
    assert "+ --bs 4" in dry.stderr and set(cli.state.runs.iterdir()) == before
    shown = cli.json("remedy", run.id, "--apply", "half-batch", "--dry-run")
    assert shown["diff"] == by_name["half-batch"]["diff"]
    again = cli.run(
        "remedy", run.id, "--apply", "half-batch", "--apply", "expandable-segments", "--wait"
    )
    assert "+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in again.stderr
    second = cli.state.run(again.stdout.strip())
    assert "batch 4\nconf expandable_segments:True" in second.output.read_text()
    notes = json.loads(second.plan.read_text())["notes"]
    assert f"remedy: half-batch + expandable-segments after {run.id}" in notes


def test_what_cannot_be_done_says_why(cli: CommandLine) -> None:
    run = cli.launch(preset(cli))
    cli.ended(run)
    assert (
        did_you_mean("half-batch")
        in cli.run("remedy", run.id, "--apply", "halfbatch", exits=2).stderr
    )
    declined = cli.run("remedy", run.id, "--apply", "mixed-precision", exits=2).stderr
    assert NO_MIXED_PRECISION in declined
    live = cli.command("sleep", "600")
    assert (
        f"`{live.id}` is {State.RUNNING}: it {NOT_ENDED}"
        in cli.run("remedy", live.id, exits=2).stderr
    )
    good = cli.command("true")
    cli.ended(good)
    none = cli.run("remedy", good.id)
    assert NO_REMEDY in none.stderr and "--all" in none.stderr
    assert {"nccl-debug", "blocking-launches"} <= {
        one["name"] for one in cli.json("remedy", good.id, "--all")["remedies"]
    }
