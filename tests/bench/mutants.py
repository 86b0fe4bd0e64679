"""How many broken lines of the rooms that decide the tests notice.

    python tests/bench/mutants.py [--room NAME] [--number 60] [--seed 33] [--workers 2]

A mutant is one change of a module: a comparison, a condition, a number, `min` for `max`, a sign, a
result, or a raise, call or loop that is gone. So many of all there are, drawn by the seed, are each
tried in a copy of the tree, by the unit tests that name the module.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support import committed_files  # noqa: E402

ROOMS = {
    "costs": ("cost.run_costs",),
    "scheduling": (
        "scheduling.allocation",
        "scheduling.queue_order",
        "scheduling.memory_warning",
        "scheduling.visibility",
    ),
    "guard": (
        "guard.triggers",
        "guard.next_step",
        "guard.idleness",
        "guard.hopeless",
        "guard.sweep_watch",
    ),
    "supervisor": (
        "lifecycle.supervisor.stop_escalation",
        "lifecycle.supervisor.pollers",
        "lifecycle.supervisor.restarts",
        "state.limits",
    ),
}
_ALSO = {
    "costs": ("tests/pairs/test_money_surfaces.py", "tests/pairs/test_estimate.py"),
    "supervisor": ("tests/unit/test_cost_limit.py", "tests/unit/test_limit_reminder.py"),
}
_OTHER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_PATIENCE_S = 30.0


class Mutant(NamedTuple):
    """One change: where, of what kind, and the module's text with it."""

    module: str
    line: int
    what: str
    text: str


def changes(node: ast.AST) -> Iterator[str]:
    """Change the node in each way that there is, one after the other; what was done."""
    if isinstance(node, ast.Compare):
        for at, before in enumerate(node.ops):
            if other := _OTHER.get(type(before)):
                node.ops[at] = other()
                yield f"{type(before).__name__} → {other.__name__}"
                node.ops[at] = before
    elif isinstance(node, (ast.BoolOp, ast.BinOp)):
        operator = node.op
        if other := _OTHER.get(type(operator)):
            node.op = other()
            yield f"{type(operator).__name__} → {other.__name__}"
            node.op = operator
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        node.value = not value if isinstance(value, bool) else value + 1
        yield f"{value!r} → {node.value!r}"
        node.value = value
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        name = node.id
        node.id = _NAMES[name]
        yield f"{name} → {node.id}"
        node.id = name
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        result = node.value
        node.value = ast.Constant(None)
        yield "return None"
        node.value = result
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        test = node.test
        node.test = ast.UnaryOp(ast.Not(), test)
        yield "not the condition"
        node.test = test
    if isinstance(node, ast.For):
        over = node.iter
        node.iter = ast.Tuple([], ast.Load())
        yield "no loop"
        node.iter = over


def gone(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Take each raise and each plain call out, one after the other."""
    for at, statement in enumerate(body):
        is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if is_call or isinstance(statement, ast.Raise):
            body[at] = ast.Pass()
            yield statement, "no call" if is_call else "no raise"
            body[at] = statement


def mutants(module: str) -> Iterator[Mutant]:
    """All of a module, but for what only a type checker reads."""
    tree = ast.parse((ROOT / path_of(module)).read_text())
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for what in changes(node):
            yield Mutant(module, getattr(node, "lineno", 0), what, ast.unparse(tree))
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                for statement, what in gone(body):
                    yield Mutant(module, statement.lineno, what, ast.unparse(tree))


def path_of(module: str) -> Path:
    """The file of a module of `runners`."""
    return Path("runners", *module.split(".")).with_suffix(".py")


def tests_of(room: str, module: str) -> list[str]:
    """The unit tests that import from it, and those that the room has besides."""
    package, _, name = module.rpartition(".")
    imports = re.compile(
        rf"from runners\.{package}\.{name} import|from runners\.{package} import [^\n(]*\b{name}\b"
    )
    named = [
        path for path in (ROOT / "tests/unit").glob("test_*.py") if imports.search(path.read_text())
    ]
    return [*sorted(str(path.relative_to(ROOT)) for path in named), *_ALSO.get(room, ())]


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def passes(tree: Path, tests: list[str], within_s: float) -> bool:
    """Whether the tests pass in a copy of the tree."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tree.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.wait(within_s) == 0
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return False


def copy_tree(to: Path) -> Path:
    """A copy of what is committed, or would be."""
    for path in committed_files():
        target = to / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    # Commands that tests start find this copy, not what is installed.
    (to / "fresnel_tui").symlink_to(Path("tui", "package", "fresnel_tui"))
    return to


def measure(room: str, number: int, seed: int, workers: int) -> list[Mutant]:
    """Try so many mutants of a room; those that no test has noticed."""
    every = [mutant for module in ROOMS[room] for mutant in mutants(module)]
    drawn = random.Random(seed).sample(every, min(number, len(every)))
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="fresnel-mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for worker in range(workers):
            trees.put(copy_tree(Path(folder) / str(worker) / "tree"))
        tree, takes = trees.get(), {}
        for module in ROOMS[room]:
            began = time.monotonic()
            if not passes(tree, tests_of(room, module), 600.0):
                sys.exit(f"the tests of {module} fail without any change")
            takes[module] = time.monotonic() - began
        trees.put(tree)

        def survives(mutant: Mutant) -> bool:
            tree = trees.get()
            file = tree / path_of(mutant.module)
            before = file.read_text()
            file.write_text(mutant.text)
            within_s = _PATIENCE_S + 4 * takes[mutant.module]
            try:
                return passes(tree, tests_of(room, mutant.module), within_s)
            finally:
                file.write_text(before)
                trees.put(tree)

        with ThreadPoolExecutor(workers) as pool:
            for mutant, lives in zip(drawn, pool.map(survives, drawn), strict=True):
                if lives:
                    survivors.append(mutant)
                    print(f"  {path_of(mutant.module)}:{mutant.line} {mutant.what}", flush=True)
    killed = len(drawn) - len(survivors)
    print(f"{room}: {killed} of {len(drawn)} killed, of {len(every)} that there are", flush=True)
    return survivors


def main() -> None:
    """Measure the rooms that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--room", choices=ROOMS, action="append")
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    for room in given.room or ROOMS:
        measure(room, given.number, given.seed, given.workers)


if __name__ == "__main__":
    main()
