"""Launches over several machines: their names, and one that is stopped while it starts."""

import time
from pathlib import Path

import msgspec
import pytest

from runners.model.errors import FresnelError
from runners.places.ssh import node_launch
from runners.places.ssh.node_groups import (
    NodeGroup,
    NodeRun,
    add_group,
    find_group,
    new_name,
    save_group,
)
from runners.state.layout import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    """A state folder."""
    return StateDirectory(tmp_path).create()


def _group(name: str, preset: str = "train", created: float = 0.0) -> NodeGroup:
    nodes = (NodeRun("a", "", "request-a"), NodeRun("b", "", "request-b"))
    return NodeGroup(name, preset, created or time.time(), "10.0.0.1", 29500, nodes)


def test_a_name_means_its_launch_before_the_preset_of_another(state: StateDirectory) -> None:
    save_group(state, _group("train", created=1.0))
    save_group(state, _group("other", created=2.0))
    assert find_group(state, "train").name == "train"
    assert find_group(state, "last").name == "other"


def test_a_launch_that_goes_on_is_not_forgotten_for_another(state: StateDirectory) -> None:
    first = _group("both")
    add_group(state, first)
    with pytest.raises(FresnelError):
        add_group(state, _group("both", created=first.created + 1))
    assert find_group(state, "both").created == first.created
    save_group(state, msgspec.structs.replace(first, ended=time.time()))
    add_group(state, _group("both", created=first.created + 1))
    assert find_group(state, "both").created == first.created + 1


@pytest.mark.parametrize("name", ["a/b", "../b", "", "last"])
def test_what_is_no_name_of_a_file_is_refused(state: StateDirectory, name: str) -> None:
    with pytest.raises(FresnelError):
        add_group(state, _group(name))
    assert not list(state.remote.rglob("*.json"))


def test_a_preset_given_by_its_path_has_a_name_too(state: StateDirectory) -> None:
    add_group(state, _group(new_name("presets/train.yaml"), "presets/train.yaml"))


def test_stopped_while_the_last_node_starts_it_leaves_none_alone(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    def start(state: StateDirectory, node: NodeRun) -> tuple[str, str]:
        if node.host == "b":
            group = find_group(state, "both")
            save_group(state, msgspec.structs.replace(group, cause="stopped by somebody"))
        return f"run-{node.host}", ""

    def end(state: StateDirectory, node: NodeRun) -> bool:
        ended.append(node.run)
        return True

    monkeypatch.setattr(node_launch, "_launch", start)
    monkeypatch.setattr(node_launch, "_is_undone", end)
    save_group(state, _group("both"))
    group = node_launch.launch_nodes(state, find_group(state, "both"))
    assert group.ended
    assert ended == ["run-a", "run-b"]
