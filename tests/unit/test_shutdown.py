"""What systemd is ending: the machine, a user's own systemd, or the session of a login."""

from pathlib import Path

import pytest

from runners.host import shutdown

USER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/fresnel-a.scope\n"
SESSION = "1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/\n"
ANSWERS = {
    "machine": '[ "$*" = is-system-running ] && echo stopping',
    "user": '[ "$*" = "--user is-system-running" ] && echo stopping || echo running',
    "session": '[ "$*" = "is-active session-3.scope" ] && echo deactivating || echo running',
    "nothing": "echo running",
    "an error": "exit 1",
}


@pytest.mark.parametrize(
    ("answer", "groups", "found"),
    [
        ("machine", USER, "machine"),
        ("machine", SESSION, "machine"),
        ("user", USER, "login"),
        ("user", SESSION, ""),
        ("session", SESSION, "login"),
        ("session", USER, ""),
        ("nothing", USER, ""),
        ("an error", SESSION, ""),
        (None, USER, ""),
    ],
)
def test_what_systemd_ends_is_what_it_says_of_that_in_which_a_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, groups: str, found: str
) -> None:
    if answer is not None:
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\n{ANSWERS[answer]}\n")
        (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutdown, "is_booted", lambda: True)
    monkeypatch.setattr(shutdown, "read_text", lambda _: groups)
    assert shutdown.what_ends() == found


def test_where_no_systemd_runs_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not shutdown.is_booted(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert shutdown.is_booted(tmp_path)
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho stopping\n")
    (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutdown, "is_booted", lambda: False)
    assert shutdown.what_ends() == ""
