"""A tiny real training for `demo`: fits a line to noisy points by gradient descent, and prints how.

Standard library only. `--lr` above 2 diverges, which ends it with an error, as such runs do.
"""

import argparse
import random
import time


def main() -> None:
    """Train by the flags of the command line; FloatingPointError when the loss is no number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two epochs")
    chosen = parser.parse_args()
    dice = random.Random(chosen.seed)
    points = [(x / 32, 3 * x / 32 - 1 + dice.gauss(0, 0.1)) for x in range(-32, 33)]
    slope = offset = 0.0
    for epoch in range(1, chosen.epochs + 1):
        errors = [(slope * x + offset - y, x) for x, y in points]
        loss = sum(error**2 for error, _ in errors) / len(points)
        print(f"epoch: {epoch}/{chosen.epochs} | loss: {loss:.6g} | lr: {chosen.lr:g}", flush=True)
        if not loss < 1e6:
            raise FloatingPointError(f"the loss is {loss:.3g}: --lr {chosen.lr:g} is too large")
        slope -= chosen.lr * 2 * sum(error * x for error, x in errors) / len(points)
        offset -= chosen.lr * 2 * sum(error for error, _ in errors) / len(points)
        time.sleep(chosen.pause)
    print(f"done: y = {slope:.3f} x {offset:+.3f}", flush=True)


if __name__ == "__main__":
    main()
