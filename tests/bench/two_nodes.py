"""Our own trainers over two machines: `sudo OMP_NUM_THREADS=1 python tests/bench/two_nodes.py`.

The tiny cascade and the tiny PCDiff, each by torchrun and by Accelerate, on two machines in network
namespaces behind a jump host, with an `/etc/hosts` that gives both of them the wrong addresses.
Then a node is killed while nobody watches. Words choose among `cascade-tiny`, `pcdiff-tiny` and
`kill`. Needs root, ip and sshd; prints how each launch ended.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runners.places.ssh.node_groups import find_group
from tests.remote.lab import Lab
from tests.support import REPOSITORY, eventually
from trainers.skulls.made_up import make_up

_WITHIN_S = 400.0
_TRAINERS = {
    "cascade-tiny": ("epochs=1", "made_up=6", "batch_size=2"),
    "pcdiff-tiny": ("niter=2", "bs=4", "val_freq=0", "vizIter=0", "threads=1"),
}


def main() -> None:
    """Train, print, and take everything away again."""
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as folder:
        os.environ["FRESNEL_STATE_DIR"] = f"{folder}/state"
        lab = Lab(Path(folder), user="anna")
        try:
            for name in ("a", "b"):
                lab.set_up(name)
            wanted = sys.argv[1:] or [*_TRAINERS, "kill"]
            for preset, settings in _TRAINERS.items():
                for launcher in ("torchrun", "accelerate") if preset in wanted else ():
                    _train(lab, preset, settings, launcher)
            if "kill" in wanted:
                _kill_one(lab)
        finally:
            lab.close()


def _train(lab: Lab, preset: str, settings: tuple[str, ...], launcher: str) -> None:
    shared = lab.shared / f"{preset}-{launcher}"
    more = [f"launcher={launcher}", "gpus=0", "processes=1", *settings]
    if preset == "cascade-tiny":  # its ranks read the same patients
        more += [f"dataset_path={shared}/made_up", f"checkpoint_dir={shared}/checkpoints"]
    else:
        preset = _with_data(lab, preset, shared)
    begun = time.monotonic()
    group = _launch(lab, preset, more)
    _report(lab, f"{preset} by {launcher}", group, begun)


def _with_data(lab: Lab, preset: str, folder: Path) -> str:
    """A copy of the preset on both machines that reads skulls which every rank sees."""
    if not folder.exists():
        make_up(folder, 4, 32)
    text = (REPOSITORY / "presets" / f"{preset}.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("  made_up_size")]
    path = f'  path: {{value: "{folder}/train.csv", type: str, help: skulls}}'
    lines = [path if line.startswith("  made_up:") else line for line in lines]
    for name in ("a", "b"):
        lab.machine(name).write(f"fresnel/presets/{preset}-shared.yaml", "\n".join(lines))
    return f"{preset}-shared"


def _kill_one(lab: Lab) -> None:
    shared = lab.shared / "killed"
    more = ["launcher=torchrun", "gpus=0", "processes=1", "epochs=500", "made_up=6", "batch_size=2"]
    more += [f"dataset_path={shared}/made_up", f"checkpoint_dir={shared}/checkpoints"]
    group = _launch(lab, "cascade-tiny", more)
    nodes = find_group(lab.line.state, group).nodes
    output = lab.machine(nodes[0].host).state / "runs" / nodes[0].run / "output.log"
    eventually(lambda: "epoch" in output.read_text().lower(), _WITHIN_S, "a first epoch")
    begun = time.monotonic()
    _kill_rank(lab.machine(nodes[1].host).state / "runs" / nodes[1].run)
    _report(lab, "a rank of node 1 killed by SIGKILL", group, begun)


def _kill_rank(run: Path) -> None:
    mark = f"FRESNEL_RUN_ID={run.name}".encode()
    for one in Path("/proc").glob("[0-9]*"):
        try:
            words = (one / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in words and any(word.startswith(b"LOCAL_RANK=") for word in words):
            os.kill(int(one.name), 9)
            return
    raise SystemExit("no rank was found")


def _launch(lab: Lab, preset: str, more: list[str]) -> str:
    words = [word for one in more for word in ("--set", one)]
    done = lab.line.run("launch", preset, "--hosts", "a,b", *words, exits=None)
    if done.returncode:
        raise SystemExit(f"{preset}: {done.stderr}")
    return done.stdout.strip()


def _report(lab: Lab, what: str, name: str, begun: float) -> None:
    """Wait until the launch has ended, which nobody but its own watcher sees to."""
    try:
        eventually(lambda: find_group(lab.line.state, name).ended, _WITHIN_S, what)
    finally:
        group = find_group(lab.line.state, name)
        took = time.monotonic() - begun
        ends = ", ".join(group.endings) or "still running"
        print(f"{what}: {took:.0f} s: {ends}; {group.cause or 'no failure'}", flush=True)
        if group.cause or not group.ended:
            for node in group.nodes:
                run = lab.machine(node.host).state / "runs" / node.run
                state = json.loads((run / "state.json").read_text())
                print(f"  {node.host}: {state.get('state')} {state.get('reason', '')}")
                print("   ", "\n    ".join((run / "output.log").read_text().splitlines()[-12:]))


if __name__ == "__main__":
    main()
