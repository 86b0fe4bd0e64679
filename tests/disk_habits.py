"""How programs write checkpoints, logs and caches: habits, each a minute of it at a time.

`python -I -S disk_habits.py --habit NAME --folder FOLDER --minutes N` writes by one of them. Standard
library only.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

MB = 10**6
MINUTE_S = 60.0
ALL_KEPT_MB = 2
Habit = Callable[[Path, int], None]
"""What a habit writes into the folder in one minute, counted from 0."""


def write(file: Path, megabytes: float = 4) -> None:
    """Write a file as careful programs do: beside its name, then renamed."""
    file.parent.mkdir(exist_ok=True)
    beside = file.with_name(f"{file.name}.tmp")
    beside.write_bytes(bytes(int(megabytes * MB)))
    beside.replace(file)


def grow(file: Path, megabytes: float) -> None:
    """Append to a file."""
    with file.open("ab") as open_file:
        open_file.write(bytes(int(megabytes * MB)))


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def nothing(folder: Path, minute: int) -> None:
    """No file at all."""


def one_replaced(folder: Path, minute: int) -> None:
    """The newest only, under one name."""
    write(folder / "last.pt")


def overwritten_in_place(folder: Path, minute: int) -> None:
    """The newest only, written over itself: short while it is written."""
    (folder / "last.pt").write_bytes(bytes(4 * MB))


def last_and_best(folder: Path, minute: int) -> None:
    """The newest, and the best whenever there is a better one."""
    write(folder / "last.pt")
    if minute & (minute + 1) == 0:
        write(folder / "best.pt")


def two_in_turn(folder: Path, minute: int) -> None:
    """Two names in turn, so that one is whole at any time."""
    write(folder / f"state_{'ab'[minute % 2]}.pt")


def last_three(folder: Path, minute: int) -> None:
    """The last three, the program removes the others."""
    write(folder / f"epoch_{minute}.pt")
    remove(folder / f"epoch_{minute - 3}.pt")


def last_eight(folder: Path, minute: int) -> None:
    """The last eight: it grows for a while."""
    write(folder / f"epoch_{minute}.pt")
    remove(folder / f"epoch_{minute - 8}.pt")


def last_and_milestones(folder: Path, minute: int) -> None:
    """The last three, and a small one of the weights alone each ten minutes."""
    last_three(folder, minute)
    if minute % 10 == 9:
        write(folder / f"weights_{minute}.pt", 0.5)


def best_three(folder: Path, minute: int) -> None:
    """The best three by a value that is in the name."""
    values = [Random(past).random() for past in range(minute + 1)]
    best = sorted(range(minute + 1), key=lambda past: values[past])[:3]
    for past in range(minute + 1):
        name = f"epoch={past}-loss={values[past]:.4f}.ckpt"
        if past == minute and past in best:
            write(folder / name)
        elif past not in best:
            remove(folder / name)


def each_better_one(folder: Path, minute: int) -> None:
    """Every one that is better than all before, which gets rarer, beside the newest."""
    write(folder / "last.pt")
    if minute & (minute + 1) == 0:
        write(folder / f"best_{minute}.pt", 2)


def folders_of_two(folder: Path, minute: int) -> None:
    """A folder each, weights and optimiser apart, two are kept."""
    for name, size in (("model.safetensors", 1), ("optimizer.pt", 2), ("rng.pth", 10**4)):
        write(folder / f"checkpoint-{minute}/{name}", size)
    remove(folder / f"checkpoint-{minute - 2}")


def shards_replaced(folder: Path, minute: int) -> None:
    """One folder of a file for each rank, written over each time."""
    for rank in range(4):
        write(folder / f"latest/rank_{rank}.pt", 1)


def sizes_that_vary(folder: Path, minute: int) -> None:
    """The last three, compressed: none is as large as the one before."""
    write(folder / f"epoch_{minute}.npz", 4 * Random(minute).uniform(0.95, 1.05))
    remove(folder / f"epoch_{minute - 3}.npz")


def quick_first(folder: Path, minute: int) -> None:
    """One each minute while it is tried out, then one each ten, the last four."""
    if minute < 5 or minute % 10 == 0:
        write(folder / f"step_{minute}.pt")
        kept = [past for past in range(minute + 1) if past < 5 or past % 10 == 0][-4:]
        for past in set(range(minute)) - set(kept):
            remove(folder / f"step_{past}.pt")


def ever_more_rarely(folder: Path, minute: int) -> None:
    """After 1, 2, 4, 8 … minutes, all are kept."""
    if minute & (minute - 1) == 0:
        write(folder / f"step_{minute}.pt", 1)


def in_the_beginning(folder: Path, minute: int) -> None:
    """Six at the start, and never again."""
    if minute < 6:
        write(folder / f"start_{minute}.pt")


def trials(folder: Path, minute: int) -> None:
    """A search: each trial keeps all of its own, and is removed when the next begins."""
    write(folder / f"trial_{minute // 6}/epoch_{minute % 6}.pt", 2)
    remove(folder / f"trial_{minute // 6 - 1}")


def cache_of_the_first_epoch(folder: Path, minute: int) -> None:
    """A cache of the data, made while the first epoch goes on, beside the newest checkpoint."""
    if minute < 9:
        write(folder / f"cache_{minute}.bin")
    write(folder / "last.pt")


def replay_buffer(folder: Path, minute: int) -> None:
    """One file that grows until it has its capacity."""
    if minute < 8:
        grow(folder / "replay.bin", 3)
    write(folder / "policy.pt", 1)


def tensorboard(folder: Path, minute: int) -> None:
    """Events that grow a little, beside the newest checkpoint."""
    grow(folder / "events.out.tfevents", 0.02)
    write(folder / "last.pt")


def a_log(folder: Path, minute: int) -> None:
    """A talkative log where its checkpoints are, and much output."""
    grow(folder / "train.log", 0.05)
    print("x" * 99, flush=True)
    write(folder / "last.pt")


def pictures(folder: Path, minute: int) -> None:
    """Small pictures of each epoch, all kept, beside the last two checkpoints."""
    write(folder / f"samples/epoch_{minute}.png", 0.03)
    write(folder / f"epoch_{minute}.pt")
    remove(folder / f"epoch_{minute - 2}.pt")


def adapters(folder: Path, minute: int) -> None:
    """Small adapters, all kept: the disk lasts for weeks."""
    write(folder / f"adapter_{minute}.safetensors", 0.02)


def every_epoch_of_a_few(folder: Path, minute: int) -> None:
    """All are kept, of an epoch each, and after 18 of them it ends."""
    if minute >= 18:
        sys.exit()
    write(folder / f"epoch_{minute}.pt", 2)
    print(f"epoch {minute + 1}/18 loss {1 / (minute + 1):.4f}", flush=True)


def all_kept(folder: Path, minute: int) -> None:
    """All are kept, for ever: this one fills the disk."""
    write(folder / f"epoch_{minute}.pt", ALL_KEPT_MB)


QUIET: dict[str, Habit] = {
    habit.__name__: habit
    for habit in (
        *(nothing, one_replaced, overwritten_in_place, last_and_best, two_in_turn, last_three),
        *(last_eight, last_and_milestones, best_three, each_better_one, folders_of_two),
        *(shards_replaced, sizes_that_vary, quick_first, ever_more_rarely, in_the_beginning),
        *(trials, cache_of_the_first_epoch, replay_buffer, tensorboard, a_log, pictures),
        *(adapters, every_epoch_of_a_few),
    )
}
"""Those that fill no disk of 500 MB within a day."""


def main() -> None:
    """Write by a habit, a minute of it at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--habit", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--minutes", type=int, required=True)
    chosen = parser.parse_args()
    habit = {**QUIET, all_kept.__name__: all_kept}[chosen.habit]
    began = time.monotonic()
    for minute in range(chosen.minutes):
        habit(chosen.folder, minute)
        time.sleep(max(0.0, began + (minute + 1) * MINUTE_S - time.monotonic()))


if __name__ == "__main__":
    main()
