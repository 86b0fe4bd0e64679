"""What counts as a secret by its name or its look, and how it is written."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.model.kept_secrets import MASK, SecretGone, unmasked_arguments, without_secrets
from runners.model.masked_plan import arrived, mask_tree, restored, travelling
from runners.model.masking import is_secret_name, mask_arguments, mask_text, mask_value
from tests.secret_kinds import KINDS, Secret, secrets_of

NO_SECRETS = (
    *(
        "PATH",
        "PASSES",
        "COMPASS",
        "SIGMA",
        "sigma_max",
        "pattern",
        "PATTERN",
        "AUTHOR",
        "keyboard",
    ),
    *("tokenizer", "TOKENIZERS_PARALLELISM", "design", "bypass", "PWD", "patience", "hotkeys"),
    *("learning_rate", "signal", "monkey", "cookbook", "dsnap", "jwtx"),
)


def test_there_are_kinds_enough() -> None:
    assert KINDS >= 40


@pytest.mark.parametrize("secret", secrets_of(0), ids=lambda secret: secret.name)
def test_no_form_shows_a_secret(secret: Secret) -> None:
    name, value, bare = secret
    shell = f"export {name.replace('-', '_')}={shlex.quote(value)}; train --lr 1"
    forms = [
        mask_value(name, value),
        *mask_arguments(["train", f"--{name}={value}"]),
        *mask_arguments(["train", f"--{name}", value]),
        *mask_arguments(["env", f"{name}={value}", "train"]),
        *mask_arguments(["launch", "s", "--set", f"environment.{name}={value}"]),
        *mask_arguments(["sh", "-c", shell]),
        mask_text(f'+{name} = "{value}"' if '"' not in value else f"+{name} = '{value}'"),
        mask_text(f"train --{name} {shlex.quote(value)} --lr 1"),
    ]
    for form in forms:
        assert bare not in form, form
    assert all(MASK in form for form in (forms[0], mask_text(shell)))


@pytest.mark.parametrize("name", NO_SECRETS)
def test_names_that_only_begin_like_a_secret_s_are_none(name: str) -> None:
    assert not is_secret_name(name)
    assert mask_arguments([f"--{name}", "plain", f"--{name}=plain"]) == [
        *(f"--{name}", "plain", f"--{name}=plain"),
    ]


def test_what_surrounds_a_secret_stays() -> None:
    assert mask_text("postgres://anna:hush@db/x") == f"postgres://anna:{MASK}@db/x"
    assert mask_text("https://x/y?sv=1&sig=hush&se=2") == f"https://x/y?sv=1&sig={MASK}&se=2"
    assert mask_text("Server=x;Password=hush;Port=1") == f"Server=x;Password={MASK};Port=1"
    assert mask_arguments(["--token=hush", "--lr", "1"]) == [f"--token={MASK}", "--lr", "1"]
    assert mask_arguments(["curl", "-u", "anna:hush"]) == ["curl", "-u", f"anna:{MASK}"]


@pytest.mark.parametrize(
    "text",
    [
        *("use ${HF_TOKEN}", "python train.py --max_tokens 512 --key_size 64", "a=b c=d", "x: 1"),
        *("sorted(rows, key=len)", "--token=$HF_TOKEN", "git@github.com:anna/x.git"),
        *("http://localhost:8000/x?page=2", "token=None", "--tokens 300B", "2026-11-22 10:15:00"),
        *("KeyError: 'image_size'", "x.errors.InvalidTokenError: too long", "AuthError: denied"),
        *("--password", "commit 0123456789abcdef0123456789abcdef01234567", "s3://bucket/key/x"),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text
    assert mask_arguments(text.split()) == text.split()


def test_numbers_count_and_passwords_of_digits_do_not() -> None:
    assert mask_value("max_tokens", "1000000") == "1000000"
    assert mask_value("key_dim", "64") == "64"
    assert mask_value("DB_PASS", "1234") == MASK
    assert mask_value("API_KEY", "12345678") == MASK


def test_a_masked_plan_has_no_secret_and_with_them_is_the_old_one() -> None:
    tree = {
        "argv": ["train", "--token=hush-1", "--again", "hush-1", "--out", "/x"],
        "environment": {"COPY": "hush-2", "DB_PASS": "hush-3", "PLAIN": "p"},
        "checkpoints": ["/x/hush-1/*.pt"],
        "notes": ["the token is hush-1"],
        "spec": {
            "environment": {"COPY": "x${env:MY_SECRET}", "DB_PASS": "hush-3", "PLAIN": "p"},
            "parameters": [
                {"name": "lr", "value": 0.1, "flag": "--lr"},
                {"name": "pass", "value": 1234, "choices": [1234, 5], "flag": "--pass"},
            ],
            "command": ["train"],
        },
    }
    masked, secrets = mask_tree(tree)
    assert masked["argv"] == ["train", f"--token={MASK}", "--again", MASK, "--out", "/x"]
    assert masked["environment"] == {"COPY": MASK, "DB_PASS": MASK, "PLAIN": "p"}
    assert masked["checkpoints"] == tree["checkpoints"], "others look for files by them"
    assert masked["notes"] == [f"the token is {MASK}"]
    assert masked["spec"]["parameters"][1]["value"] == MASK
    assert restored(masked, arrived(travelling(secrets))) == tree


def test_words_get_their_secrets_back_or_it_is_said_which_is_gone() -> None:
    kept = travelling({"argv.1": "--token=hush", "spec.command.0": "x"})
    assert unmasked_arguments("argv", ["train", f"--token={MASK}"], kept) == [
        "train",
        "--token=hush",
    ]
    assert without_secrets({**kept, "HOME": "/x"}) == {"HOME": "/x"}
    with pytest.raises(SecretGone, match="argv 1"):
        unmasked_arguments("argv", ["train", f"--token={MASK}"], {})


@given(st.text(max_size=300))
def test_any_text_is_masked_once(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--sweep api_key=SEKRETA,SEKRETB", f"--sweep api_key={MASK}"),
        ("f(api_key=SEKRETA, lr=0.1)", f"f(api_key={MASK}, lr=0.1)"),
        ("token=SEKRETA,lr=0.1,b=2", f"token={MASK},lr=0.1,b=2"),
        ("lr=0.1,0.2 seed=1", "lr=0.1,0.2 seed=1"),
    ],
)
def test_each_of_several_values_is_a_secret(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize("piece", ["a-", "-eyJabcdefgh", "http://a", "a.b="])
def test_a_long_line_without_blanks_is_masked_at_once(piece: str) -> None:
    # Each of these was looked at again from every piece on: minutes, and then hours.
    line = piece * (200_000 // len(piece))
    assert mask_text(f"{line} api_token=SEKRETSEKRET") == f"{line} api_token={MASK}"
