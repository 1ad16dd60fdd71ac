"""An installation has one signing key, also when two processes start at once, readable only by its owner."""

import threading
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.store.signed_log_head_statements import Signer, is_signed_by

SESSION = "ses_01jd2m4c9k7w6t0q8n5x3vbaeh"


def test_first_opening_makes_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    made = Signer.open(path)
    assert Signer.open(path).fingerprint == made.fingerprint
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["signing.pem"]


def test_processes_that_open_at_once_sign_with_the_key_on_disk(tmp_path: Path) -> None:
    """Threads share a pid, as processes of two containers may."""
    for turn in range(40):
        path, opened = tmp_path / str(turn) / "signing.pem", []
        together = threading.Barrier(6)

        def open_(path: Path = path, opened: list[str] = opened, start: threading.Barrier = together) -> None:
            start.wait()
            opened.append(Signer.open(path).fingerprint)

        threads = [threading.Thread(target=open_) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert opened == [Signer.open(path).fingerprint] * 6
        assert [each.name for each in path.parent.iterdir()] == ["signing.pem"]


def test_draft_that_a_crash_left_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".signing.pem.1").write_bytes(b"half a k")
    assert (
        Signer.open(tmp_path / "signing.pem").fingerprint == Signer.open(tmp_path / "signing.pem").fingerprint
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "it's" / "signing.pem"
    Signer.open(path)
    path.chmod(mode)
    with pytest.raises(Unavailable) as refusal:
        Signer.open(path)
    quoted = str(tmp_path) + "/it'\"'\"'s/signing.pem"
    assert str(refusal.value) == (
        f"The signing key {path} is open to other users (mode {mode:04o}). Close it: chmod 600 '{quoted}'"
    )


def test_key_that_is_damaged_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "signing.pem"
    path.touch(mode=0o600)
    with pytest.raises(Unavailable, match="is damaged"):
        Signer.open(path)


def test_place_that_cannot_hold_a_key_is_said(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    with pytest.raises(Unavailable, match=r"signing\.pem cannot be read or made: Not a directory"):
        Signer.open(tmp_path / "keys" / "signing.pem")


def test_statement_is_of_now_unless_another_time_is_given(tmp_path: Path) -> None:
    signer = Signer.open(tmp_path / "signing.pem")
    then = signer.sign("checkpoint", SESSION, 1, "0" * 64, at_ms=0)
    assert then.at_ms == 0 and is_signed_by(then, signer.public_key)
    assert signer.sign("checkpoint", SESSION, 1, "0" * 64).at_ms > 1_700_000_000_000
