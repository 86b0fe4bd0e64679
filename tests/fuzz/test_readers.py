"""Every reader is given whole samples with damage in them, and so is all that shows a run over it.

`FRESNEL_FUZZ` is how many examples there are in all; `make fuzz` asks for a night's worth.
"""

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runners.diagnosis.signatures import load_signatures
from runners.host.checkpoint_files import proof
from runners.model.errors import FresnelError
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.protocol import LinkNoise, MessageReader, pack
from runners.places.ssh.snapshot_updates import SnapshotReader, snapshot_to_tree
from runners.presets.load import load_preset
from runners.presets.reading.user_settings import check_settings
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs, list_runs
from runners.watch.metrics.run_metrics import RunMetrics
from tests.fuzz import samples
from tests.fuzz.mutations import STEPS, Step, changed_bytes, changed_json
from tests.fuzz.world import World, damaged, share
from tests.unit.test_run_query import row
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext, table_text
from tui.views.runs.run_details import describe_run
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run

FILES = samples.files_of_a_run()
_STATE_FILES = 12


def look(state: StateDirectory) -> list[str]:
    """Read and show everything as `list`, `status` and a panel do; what could not be read."""
    problems = []
    context = TableContext(samples.START, None)
    for run in list_runs(state):
        view = view_run(run, thorough=True)
        problems += [view.problem] if "cannot be read: " in view.problem else []
        rows = [row_of_view(view)]
        if not run.is_live:
            rows.append(row_of_ended(run, 0))
        for key in COLUMNS:
            assert all(isinstance(table_text(key, context)(one), str) for one in rows)
        json.dumps(to_json(view))
        describe_run(view)
    return problems


@share(0.4)
@given(st.integers(0, len(FILES) - 1), STEPS, st.booleans())
def test_a_damaged_file_of_a_run_is_read_as_far_as_it_can_be(
    world: World, number: int, steps: list[Step], is_live: bool
) -> None:
    sample, run = FILES[number], world.live if is_live else world.ended
    content = sample.change(sample.content, steps)
    path = run.path / sample.name
    with damaged(path, content):
        if sample.name.startswith("checkpoints/"):
            proof(str(path))
        (found,) = find_runs(world.state, [run.id])
        metrics = RunMetrics(found)
        while metrics.poll():
            pass
        notes = [note for note in metrics.notes if "cannot be read: " in note]
        assert not notes, notes
        problems = look(world.state)
        assert not problems, problems


@share(0.2)
@given(st.integers(0, _STATE_FILES), STEPS, st.booleans())
def test_damaged_state_is_shown_as_what_is_left_of_it(
    world: World, number: int, steps: list[Step], is_live: bool
) -> None:
    run = world.live if is_live else world.ended
    files = sorted(samples.state_files(run, is_live).items())
    name, content = files[number % len(files)]
    with damaged(run.path / name, changed_json(content, steps)):
        problems = look(world.state)
    assert not problems, problems


@share(0.1)
@given(st.integers(0, 1 << 20), STEPS)
def test_damaged_yaml_is_refused_with_words_or_taken(
    tmp_path: Path, number: int, steps: list[Step]
) -> None:
    presets = samples.presets()
    path = tmp_path / "preset.yaml"
    path.write_bytes(changed_bytes(presets[number % len(presets)], steps))
    try:
        load_preset(path)
    except FresnelError as error:
        assert error.message
    text = changed_bytes(b"panel:\n  theme: nord\nnotify:\n  command: [echo]\n", steps)
    try:
        check_settings(text.decode("utf-8", "replace"))
    except FresnelError as error:
        assert error.message


@share(0.03)
@given(STEPS)
def test_damaged_signatures_are_refused_with_words_or_taken(
    tmp_path: Path, steps: list[Step]
) -> None:
    known = b"- id: mine\n  title: of mine\n  patterns: ['gone wrong']\n  samples: [gone wrong]\n"
    folder = tmp_path / "fresnel-tui"
    folder.mkdir(exist_ok=True)
    (folder / "signatures.yaml").write_bytes(changed_bytes(known, steps))
    place = os.environ.get("XDG_CONFIG_HOME", "")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path)
    try:
        load_signatures()
    except FresnelError as error:
        assert error.message
    finally:
        os.environ["XDG_CONFIG_HOME"] = place


@share(0.1)
@given(STEPS, st.booleans())
def test_a_damaged_message_of_a_link_is_noise_or_a_snapshot(
    steps: list[Step], by_value: bool
) -> None:
    snapshot = PlaceSnapshot(runs={"live": row()})
    tree = json.dumps({"snapshot": snapshot_to_tree(snapshot), "answer": {"time": 1.0}}).encode()
    line = changed_json(tree, steps) + b"\n" if by_value else changed_bytes(pack({}) + tree, steps)
    try:
        for frame in MessageReader().feed(line):
            SnapshotReader().take(frame.fields)
    except (LinkNoise, ValueError) as error:
        assert str(error)
