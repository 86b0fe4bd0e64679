"""What systemd is ending: the machine, a user's own systemd, or the session of a login."""

from pathlib import Path

import pytest

from runners.host import identity, shutdown

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
    ("answer", "groups", "first", "found"),
    [
        ("machine", USER, "systemd\n", "machine"),
        ("machine", SESSION, "systemd\n", "machine"),
        ("user", USER, "systemd\n", "login"),
        ("user", SESSION, "systemd\n", ""),
        ("session", SESSION, "systemd\n", "login"),
        ("session", USER, "systemd\n", ""),
        ("nothing", USER, "systemd\n", ""),
        ("an error", SESSION, "systemd\n", ""),
        ("an error", SESSION, "systemd-shutdow\n", "machine"),
        (None, USER, "systemd\n", ""),
    ],
)
def test_what_systemd_ends_is_what_it_says_of_that_in_which_a_process_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str | None,
    groups: str,
    first: str,
    found: str,
) -> None:
    if answer is not None:
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\n{ANSWERS[answer]}\n")
        (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    files = {"/proc/self/cgroup": groups, "/proc/1/comm": first}
    monkeypatch.setattr(shutdown, "read_text", files.__getitem__)
    assert shutdown.what_ends() == found


def test_a_machine_that_systemd_runs_has_its_folder(tmp_path: Path) -> None:
    assert not identity.is_booted(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert identity.is_booted(tmp_path)
