"""What may know what: the contracts, and what is really loaded."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runners.host.helpers import HELPERS
from tests.architecture.sources import nodes, place, tree_of
from tests.support import REPOSITORY

PRINT_LOADED = "import sys; print('\\n'.join(sorted(sys.modules)))"


def loaded(code: str, *flags: str) -> set[str]:
    """The modules loaded after `code` ran in a Python of its own."""
    command = [
        sys.executable,
        *flags,
        "-c",
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{code}\n{PRINT_LOADED}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n"))


def packages(modules: set[str]) -> set[str]:
    """Their top-level names."""
    return {module.partition(".")[0] for module in modules}


@pytest.mark.skipif(
    shutil.which("lint-imports", path=str(Path(sys.executable).parent)) is None,
    reason="no import-linter",
)
def test_the_import_contracts_are_kept() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


WATCH_FOR_RUNS = """
sys.modules['ssl'] = None
import asyncio, contextlib, itertools
from pathlib import Path
from runners.state.layout import StateDirectory
from tui.snapshot.feed import SnapshotFeed
del sys.modules['ssl']

async def see_runs_come(state):
    feed = SnapshotFeed(state, read_only=True)
    async with contextlib.aclosing(feed.snapshots()) as snapshots:
        await anext(snapshots)
        await anext(snapshots)
        for number in itertools.count():
            (state.runs / f'folder-{number}').mkdir()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(feed._hurry.wait(), 0.2)
                break

asyncio.run(see_runs_come(StateDirectory(Path(FOLDER)).create()))
"""
"""Waits until the feed is told of a new run's folder."""


def loaded_by(*words: str) -> set[str]:
    """The modules loaded by a headless command."""
    return loaded(
        f"sys.argv = ['fresnel-tui', *{list(words)!r}]\nfrom tui.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass"
    )


@pytest.mark.parametrize(
    "words", [["--no-ui", "list"], ["list", "--json"], ["presets"], ["gpus"], ["--help"]]
)
def test_headless_commands_load_no_screen_and_no_tensor(words: list[str]) -> None:
    found = packages(loaded_by(*words))
    assert not found & {
        "textual",
        "rich",
        "torch",
        "numpy",
        "watchfiles",
        "pynvml",
        "amdsmi",
        "trainers",
    }


def test_list_loads_what_it_shows_and_little_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is typed most often, and half of its time is imports."""
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    found = loaded_by("list")
    assert "tui.cli.run_list" in found
    assert not found & {"shutil", "bz2", "shlex", "subprocess", "socket", "yaml", "difflib"}
    assert "threading" not in found
    rooms = ("runners.presets", "runners.verify", "runners.lifecycle.launch.planning")
    rooms += ("runners.guard.keeper", "runners.guard.rule")
    assert not [name for name in found if name.startswith(rooms)]
    ours = [name for name in found if name.partition(".")[0] in ("runners", "tui")]
    assert len(ours) <= 103, sorted(ours)


def test_the_launch_of_an_own_command_reads_no_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sixth of its time was modules that only presets need, and msgspec's for older Pythons."""
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    found = loaded_by("plan", "--", "true")
    assert "runners.lifecycle.launch.planner" in found
    assert not found & {
        "yaml",
        "dataclasses",
        "random",
        "socket",
        "tempfile",
        "traceback",
        "_strptime",
    }
    # Clusters, sweeps by a sampler, presets, guards and the trash are asked for by few.
    rooms = ("launch.submit", "launch.sampled_runs", "control.trash")
    later = [*(f"runners.lifecycle.{room}" for room in rooms), "runners.presets.sampler_flag"]
    later += [
        "runners.watch.metrics.event_reader",
        "runners.slurm.client",
        "runners.presets.catalogue",
        "runners.guard.rule",
    ]
    assert not found & set(later)
    ours = [name for name in found if name.partition(".")[0] in ("runners", "tui")]
    assert len(ours) <= 158, sorted(ours)
    if sys.version_info >= (3, 11):
        assert not found & {"typing_extensions", "inspect"}


def test_an_agent_loads_no_screen_and_nothing_of_the_panel() -> None:
    rooms = ("agent", "snapshot", "views")
    names = [
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for room in rooms
        for path in sorted((REPOSITORY / "tui" / room).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    found = loaded("\n".join(f"import {name}" for name in names))
    assert "tui.agent.snapshots" in found
    assert not packages(found) & {"textual", "torch"}
    assert not [name for name in found if name.startswith(("tui.panel", "tui.web"))]


def test_what_a_question_about_files_starts_on_a_machine_loads_no_link_and_no_archive() -> None:
    """Each of a copy's questions starts one: what the asking end needs was half of its start."""
    found = loaded(STARTS["an agent"])
    assert "tui.agent.tools" in found
    assert not found & {"msgspec", "tarfile", "subprocess", "asyncio", "runners.places.ssh.ssh"}


def test_an_agent_loads_no_openssl() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "tui", "host-agent", "watch"]
    done = subprocess.run(
        words, input="", capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    found = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"tui.agent.snapshots", "asyncio"} <= found
    assert not found & {"_ssl", "runners.places.ssh.agent_tool"}


@pytest.mark.parametrize("name", sorted(HELPERS))
def test_a_helper_process_can_be_imported_and_has_a_main(name: str) -> None:
    helper = HELPERS[name]
    flags = ("-I", "-S") if helper.isolated else ()
    found = loaded(f"from {helper.module} import main; assert callable(main)", *flags)
    assert helper.module in found
    assert not packages(found) & {"textual", "torch"}


def test_a_watcher_loads_nothing_that_only_a_stall_or_a_notice_needs() -> None:
    """One begins with the first of a machine's runs, and lives as long as any."""
    found = loaded("from runners.host.helpers import main_of\nmain_of('runners.guard.watcher')")
    seldom = {"runners.diagnosis.stacks", "runners.model.masking", "subprocess", "logging"}
    assert not found & seldom


def test_a_guard_loads_no_http_until_it_has_to_tell_something() -> None:
    """It lives as long as its machine, and HTTP with TLS was a third of its memory."""
    found = loaded("from runners.host.helpers import main_of\nmain_of('runners.guard.daemon')")
    assert "runners.guard.outbox" in found
    assert not found & {"http.client", "urllib.request", "_ssl", "email"}


STARTS = {
    "a helper": "from runners.host.helpers import main_of\nmain_of('runners.guard.watcher')",
    "a supervisor": (
        "import runpy\n"
        "sys.argv = ['supervisor.py', '/nowhere', '20261120-101500-demo-7f3a']\n"
        f"try: runpy.run_path({HELPERS['supervisor'].module.replace('.', '/') + '.py'!r},"
        " run_name='__main__')\n"
        "except SystemExit: pass"
    ),
    "an agent": (
        "from io import BytesIO, TextIOWrapper\n"
        "import os; out = os.dup(1)\n"
        'sys.stdin = TextIOWrapper(BytesIO(b\'{"folder": "/", "names": []}\'))\n'
        "sys.argv = ['fresnel-tui', 'host-agent', 'have']\nfrom tui.__main__ import main\n"
        "try: main()\nexcept SystemExit: os.dup2(out, 1)"
    ),
    "a command": (
        "sys.argv = ['fresnel-tui', 'list']\nfrom tui.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass"
    ),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_no_garbage_is_looked_for_in_what_a_start_imports(start: str) -> None:
    """Doing so takes a fifth of a short process's life, and what is frozen is left at its end."""
    loaded(f"import gc\n{start}\nassert gc.isenabled() and gc.get_freeze_count() > 1000")


UNNEEDED = """
import textwrap, uuid
assert uuid.uuid4().version == 4 and textwrap.wrap('a b', 1) == ['a', 'b']
"""


@pytest.mark.parametrize("start", ["a helper", "a command"])
def test_msgspec_loads_nothing_for_values_that_we_do_not_have(start: str) -> None:
    """A twentieth of a helper's start; who asks for it afterwards has it."""
    assert not loaded(STARTS[start]) & {"uuid", "platform", "textwrap"}
    loaded(f"{STARTS[start]}\n{UNNEEDED}")


def test_the_first_paint_loads_what_it_shows_and_little_else() -> None:
    """What follows it (use cases, other machines, dialogs) is loaded when it is asked for."""
    found = loaded("sys.modules['ssl'] = None\nimport tui.panel.app")
    rooms = ("lifecycle", "presets.load", "places.actions", "places.ssh", "verify", "housekeeping")
    later = [*(f"runners.{room}" for room in rooms), "runners.model.masking", "tui.panel.screens"]
    assert not [name for name in found if name.startswith(tuple(later))]
    ours = [name for name in found if name.partition(".")[0] in ("runners", "tui")]
    assert len(ours) <= 195, sorted(ours)
    # Logs are followed far more often than searched, filtered or copied from.
    searching = {f"runners.watch.logs.{room}" for room in ("search", "filter", "extract", "ranks")}
    assert not found & searching


def test_a_list_of_what_ended_loads_nothing_that_reads_a_live_run() -> None:
    found = loaded("import tui.cli.run_list")
    assert "tui.views.runs.row_reading" in found
    assert not found & {"runners.watch.metrics.live", "tui.views.runs.run_view"}


URLS = """
import urllib.parse
assert Path('/a b').as_uri() == 'file:///a%20b' and urllib.parse.quote('/a b') == '/a%20b'
"""


@pytest.mark.parametrize(
    ("start", "flags"),
    [
        ("import runners.lifecycle.supervisor.supervisor", ("-I", "-S")),
        ("from runners.host.helpers import main_of; main_of('runners.gpus.sampler')", ("-E",)),
        (STARTS["a command"], ()),
    ],
)
def test_paths_load_nothing_of_urls_before_one_is_asked_for(
    start: str, flags: Sequence[str]
) -> None:
    """Half a megabyte of each supervisor, as long as its run lasts."""
    assert not loaded(start, *flags) & {"urllib.parse", "ipaddress"}
    loaded(f"{start}\nfrom pathlib import Path{URLS}", *flags)


def test_the_panel_loads_no_tensor() -> None:
    found = packages(loaded("import tui.panel.app"))
    assert "textual" in found
    assert "hashlib" not in packages(loaded("sys.modules['ssl'] = None\nimport tui.panel.app"))


def test_waiting_for_runs_loads_no_tls(tmp_path: Path) -> None:
    found = loaded(WATCH_FOR_RUNS.replace("FOLDER", repr(str(tmp_path / "state"))))
    assert "watchfiles" in found
    assert not packages(found) & {"ssl", "_ssl"}
    assert not found & {"torch", "numpy", "trainers", "pynvml", "amdsmi"}


def test_the_supervisor_is_small() -> None:
    found = loaded("import runners.lifecycle.supervisor.supervisor", "-I", "-S")
    ours = {name for name in found if name.partition(".")[0] in ("runners", "tui", "trainers")}
    allowed = (
        "runners.host",
        "runners.lifecycle.supervisor",
        "runners.state.layout",
        "runners.state.limits",
        "runners.state.records",
        "runners.state.trust",
        "runners.state.vanished",
        "runners.model.closed",
        "runners.model.endings",
        "runners.model.kept_secrets",
        "runners.model.states",
    )
    rooms = {"runners", "runners.model", "runners.state", "runners.lifecycle"}
    strangers = {name for name in ours - rooms if not name.startswith(allowed)}
    assert not strangers
    outside = packages(found) - set(sys.stdlib_module_names) - {"runners", "", "__main__"}
    assert not {name for name in outside if not name.startswith("_")}
    assert not found & {
        "asyncio",
        "subprocess",
        "multiprocessing",
        "logging",
        "msgspec",
        "yaml",
        "psutil",
    }


def test_the_terminal_s_keeper_is_standard_library_alone() -> None:
    file = f"{HELPERS['pty'].module.replace('.', '/')}.py"
    found = loaded(f"import runpy; runpy.run_path({file!r})", "-I", "-S")
    assert not {name for name in found if name.startswith("runners")}


def test_trainers_import_nothing_of_ours() -> None:
    for path in (REPOSITORY / "trainers").rglob("*.py"):
        words = path.read_text()
        assert "import tui" not in words and "from tui" not in words, path
        assert "import runners" not in words and "from runners" not in words, path


def _imports(path: Path) -> set[str]:
    """The modules of ours that a file names, wherever it does, for types alone too."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", ["tui", "runners", "trainers"])
def test_no_module_imports_itself_over_others(package: str) -> None:
    root = REPOSITORY / package.replace(".", "/")
    modules = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.rglob("*.py")
    }
    arrows = {name: _imports(path) & set(modules) - {name} for name, path in modules.items()}
    while free := [name for name, needed in arrows.items() if not needed & set(arrows)]:
        for name in free:
            del arrows[name]
    # What only hangs on the circle is not shown.
    while outside := [name for name in arrows if not any(name in to for to in arrows.values())]:
        for name in outside:
            del arrows[name]
    assert not {name: sorted(needed & set(arrows)) for name, needed in arrows.items()}


TRAINER_PROGRAMS = sorted(
    path for path in (REPOSITORY / "trainers").rglob("*.py") if "sys.path[:] =" in path.read_text()
)


@pytest.mark.parametrize(
    "path", TRAINER_PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_a_trainer_s_threads_are_told_to_sleep_before_torch_is_loaded(
    path: Path, tmp_path: Path
) -> None:
    """OpenMP asks once, when torch loads it; spinning threads halve a busy machine's speed."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "import os, sys\nprint('waits', os.environ.get('OMP_WAIT_POLICY'))\nsys.exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, str(path), "--help"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "waits None" not in done.stdout
    if "\nimport torch\n" in path.read_text():
        assert done.stdout == "waits PASSIVE\n"


BY_HAND = ("tests/bench", "tests/hardware")
"""Programs that no test runs whole: nothing else notices that a name of theirs is gone."""


def module_file(name: str, beside: Path) -> Path | None:
    """Where a module of ours lies that a program of these imports; None: another's."""
    places = [*(REPOSITORY / folder for folder in BY_HAND), beside.parent, REPOSITORY]
    inner = Path(*name.split("."))
    names = (inner.with_suffix(".py"), inner / "__init__.py")
    return next((place / one for place in places for one in names if (place / one).is_file()), None)


def names_in_module(path: Path) -> set[str]:
    """What can be imported from a module: what it binds, and the modules below it."""
    found = {inner.stem for inner in path.parent.iterdir()} if path.stem == "__init__" else set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_what_benches_and_hardware_checks_import_is_there() -> None:
    missing = []
    for path, node in nodes(*BY_HAND):
        if isinstance(node, ast.ImportFrom) and node.module:
            source = module_file(node.module, path)
            if source is None or "__getattr__" in (there := names_in_module(source)):
                continue
            gone = {alias.name for alias in node.names} - there
            missing += [f"{place(path, node)}: {node.module} has no {name}" for name in gone]
    assert not missing, "\n".join(missing)
