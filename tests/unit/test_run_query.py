"""What people type to find runs, in the panel and with `list`."""

import re
from datetime import datetime

import msgspec
import pytest

from runners.model.errors import WrongInput
from runners.model.states import State
from runners.places.run_row import RunRow, pack_settings
from tui.views.runs.run_query import checked_query, parse_query

NOW = datetime(2026, 11, 21, 18, 0).timestamp()


def row(name: str = "vit-small", **fields: object) -> RunRow:
    """A row like that of a run which ended well half an hour ago."""
    known = {
        "id": f"20261121-173000-{name}-7f3a",
        "stamp": 0,
        "name": name,
        "preset": "imagenet",
        "group": "",
        "state": State.DONE,
        "remark": "",
        "host": "box",
        "user": "ann",
        "created": NOW - 1800,
        "started": NOW - 1790,
        "ended": NOW - 60,
        "seconds": 1730.0,
        "exit_code": 0,
        "gpus": (0, 3),
        "fraction": 1.0,
        "step": 100,
        "steps": 100,
        "epoch": None,
        "epochs": None,
        "headline": "loss",
        "last": 0.2,
        "best": 0.1,
        "packed": msgspec.msgpack.encode({"loss": (0.2, 0.1, 90), "psnr": (24.0, 27.5, 40)}),
        "tags": ("good", "Paper"),
        "packed_settings": pack_settings({"lr": "3e-4", "seed": "3", "opt": "adam", "psnr": "1"}),
    }
    return RunRow(**{**known, **fields})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "VIT",
        "imagenet small",
        "7f3a",
        "paper",
        '"vit-small"',
        "state:done",
        "state:failed,do",
        "state:ended",
        "tag:good",
        "tag:PAPER,other",
        "preset:image",
        "name:vit",
        "host:box user:ann",
        "gpu:3",
        "is:ended",
        "loss<0.3",
        "best:loss<=0.1",
        "best:psnr>27",
        "psnr=24",
        "!psnr>24",
        "-state:failed",
        "since:1h",
        "since:today",
        "since:2026-11-21",
        "before:10m",
        "age<1h",
        "elapsed>20m",
        "progress>=100",
        "gpus=2",
        "exit=0",
        "seed=3",
        "seed=3.0",
        "lr=0.0003",
        "set:lr<1e-3",
        "set:lr=3e-4",
        "set:LR,other",
        "set:psnr=1",
        "opt=adam",
        "opt!=sgd",
        "-seed=4",
    ],
)
def test_it_finds(text: str) -> None:
    assert checked_query(text, NOW)(row()), text


@pytest.mark.parametrize(
    "text",
    [
        "resnet",
        "vit resnet",
        "state:failed",
        "tag:goo",
        "gpu:1",
        "is:starred",
        "loss<0.2",
        "best:loss<0.1",
        "psnr>25",
        "fid<10",
        "since:10m",
        "before:2026-11-21",
        "age>1h",
        "cost>0",
        "!vit",
        "seed=4",
        "set:loss<9",
        "set:lr>1e-3",
        "set:opt<1",
        "psnr=1",
        "opt=sgd",
        "nothing!=1",
        "set:nothing",
    ],
)
def test_it_leaves_out(text: str) -> None:
    assert not checked_query(text, NOW)(row()), text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stat:failed", "did you mean `state:`"),
        ("Sinc:7d", "did you mean `since:`"),
        ("set:lr<big", "expected a number"),
        ("state:fialed", "expected queued, starting, running"),
        ("since:soon", "`soon` is no time"),
        ("loss<abc", "`loss`: expected a number, not `abc`"),
        ("is:big", "expected live, ended, starred"),
        ("tag:", "needs a value"),
    ],
)
def test_what_is_not_understood_is_said(text: str, told: str) -> None:
    with pytest.raises(WrongInput, match=re.escape(told)):
        checked_query(text, NOW)


@pytest.mark.parametrize("text", ["state:", "loss<", "best:loss>", "-", "tag:", 'na"me', "since:7"])
def test_while_one_types_nothing_breaks(text: str) -> None:
    query = parse_query(text, NOW, typing=True)
    if text != "since:7" and '"' not in text and text != "-":
        assert query(row()) and not query.problem


def test_a_reason_a_note_and_a_prompt_are_found() -> None:
    failed = row(state=State.FAILED, remark="RuntimeError: CUDA out of memory", note="try lr 1e-4")
    for text in ("cuda", "reason:memory", "note:1e-4", "state:failed memory"):
        assert checked_query(text, NOW)(failed), text
