"""The preset key `metrics`: its forms, and one clear error for each mistake."""

from pathlib import Path

import pytest

from runners.model.errors import WrongInput
from runners.model.spec import MetricPattern, MetricRule
from runners.presets.load import load_preset


def rule(tmp_path: Path, text: str) -> MetricRule:
    path = tmp_path / "mine.yaml"
    path.write_text(f"launcher: command\ncommand: 'true'\n{text}")
    return load_preset(path).metrics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", MetricRule()),
        ("metrics: tqdm", MetricRule(("tqdm",))),
        ("metrics: [keras, pairs]", MetricRule(("keras", "pairs"))),
        ("metrics: none", MetricRule(("none",))),
        ((
            "metrics: {readers: pcdiff, offset: {epoch: 1}, higher_is_better: [score], "
            "tensorboard: runs}"
        ),
         MetricRule(("pcdiff",), offset={"epoch": 1}, higher=("score",), tensorboard=("runs",))),
        ("metrics: {patterns: ['L=(?P<loss>.*)', {line: 'i(?P<step>.)', offset: {step: 1}}], "
"rename: {a: b}}",
         MetricRule(patterns=(MetricPattern("L=(?P<loss>.*)"),
             MetricPattern("i(?P<step>.)", {"step": 1})),
                    rename={"a": "b"})),
    ],
)  # fmt: skip
def test_the_forms_of_the_key(tmp_path: Path, text: str, expected: MetricRule) -> None:
    assert rule(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("metrics: tqmd", "metrics", "tqdm"),
        ("metrics: [pairs, tqmd]", "metrics.1", "tqdm"),
        ("metrics: {readers: [tqmd]}", "metrics.readers.0", "tqdm"),
        ("metrics: {reader: tqdm}", "metrics", "readers"),
        ("metrics: {patterns: ['(']}", "metrics.patterns.0", "not a regular expression"),
        ("metrics: {patterns: ['loss: .*']}", "metrics.patterns.0", "named group"),
        ("metrics: {patterns: ['(?P<name>a)']}", "metrics.patterns.0", "go together"),
        (
            "metrics: {patterns: [{line: '(?P<a>.)', offset: {b: 1}}]}",
            "metrics.patterns.0",
            "no group `b`",
        ),
        ("metrics: {offset: {epoch: one}}", "metrics.offset", "number"),
    ],
)
def test_mistakes_name_the_key_and_what_to_do(
    tmp_path: Path, text: str, key: str, words: str
) -> None:
    with pytest.raises(WrongInput) as caught:
        rule(tmp_path, text)
    assert key in str(caught.value) and words in str(caught.value), str(caught.value)
