"""Secrets survive rotations, crashes and other writers, and nobody else reads them."""

import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from cryptography.fernet import Fernet

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.store.vault import Vault
from tests.forked_command import PLAIN, Forked


def files(home: Path) -> tuple[Path, Path]:
    return home / "vault.json", home / "keys" / "vault.keys"


def vault_at(home: Path) -> Vault:
    return Vault(*files(home))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_comes_back_from_another_vault_over_the_same_files(tmp_path: Path) -> None:
    vault_at(tmp_path).set("github_token", "s3cret\nwith ünicode")
    assert vault_at(tmp_path).get("github_token") == "s3cret\nwith ünicode"
    assert vault_at(tmp_path).get("openai_api_key") is None
    assert vault_at(tmp_path).names() == ["github_token"]


def test_an_empty_vault_reads_as_empty_and_leaves_no_files(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    assert vault.names() == []
    assert vault.get("github_token") is None
    assert list(tmp_path.iterdir()) == []


def test_values_rest_encrypted_in_files_of_the_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        vault_at(tmp_path).set("github_token", "a value nobody sees")
    finally:
        os.umask(before)
    path, keys_path = files(tmp_path)
    assert b"nobody" not in path.read_bytes()
    assert [mode(path), mode(keys_path), mode(keys_path.parent)] == [0o600, 0o600, 0o700]
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == [
        "vault.json",
        "vault.keys",
        "vault.lock",
    ]


def test_a_new_value_takes_the_place_of_the_old(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "old")
    vault.set("github_token", "new")
    assert vault.get("github_token") == "new"


def test_a_deleted_secret_is_gone(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    vault.set("openai_api_key", "value")
    vault.delete("github_token")
    assert vault.names() == ["openai_api_key"]
    with pytest.raises(NotFound, match=r"no secret 'github_token'. There are: openai_api_key"):
        vault.delete("github_token")


@pytest.mark.parametrize("name", ["", "UPPER", "1st", "has-dash", "a" * 201, "../x", "a\n"])
def test_a_strange_name_is_refused(tmp_path: Path, name: str) -> None:
    vault = vault_at(tmp_path)
    with pytest.raises(BadRequest, match="is not a secret's name"):
        vault.set(name, "value")
    with pytest.raises(BadRequest, match="is not a secret's name"):
        vault.get(name)
    with pytest.raises(BadRequest, match="is not a secret's name"):
        vault.delete(name)


def test_an_empty_or_huge_value_is_refused(tmp_path: Path) -> None:
    for empty in ("", " ", " \t\n"):
        with pytest.raises(BadRequest, match="is empty"):
            vault_at(tmp_path).set("github_token", empty)
    with pytest.raises(BadRequest, match="larger than 64 KiB"):
        vault_at(tmp_path).set("github_token", "x" * 65_537)


def test_rotation_changes_key_and_tokens_and_keeps_values(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    path, keys_path = files(tmp_path)
    vault.set("github_token", "one")
    vault.set("openai_api_key", "two")
    old_key, old_tokens = keys_path.read_bytes(), orjson.loads(path.read_bytes())
    assert vault.rotate() == 2
    assert len(keys_path.read_bytes().splitlines()) == 1
    assert keys_path.read_bytes() != old_key
    assert all(token != old_tokens[name] for name, token in orjson.loads(path.read_bytes()).items())
    assert [vault.get("github_token"), vault.get("openai_api_key")] == ["one", "two"]
    assert mode(keys_path) == 0o600


def test_every_key_in_the_file_decrypts_and_the_first_encrypts(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    path, keys_path = files(tmp_path)
    vault.set("github_token", "one")
    new = Fernet.generate_key()
    keys_path.write_bytes(new + b"\n" + keys_path.read_bytes())
    vault.set("openai_api_key", "two")
    assert [vault.get("github_token"), vault.get("openai_api_key")] == ["one", "two"]
    assert b"two" in Fernet(new).decrypt(orjson.loads(path.read_bytes())["openai_api_key"])


def test_a_rotation_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    secrets = {f"secret_{number}": f"value {number}" for number in range(20)}
    for name, value in secrets.items():
        vault.set(name, value)
    path, keys_path = files(tmp_path)
    rotating = (
        "import sys; from pathlib import Path; from hutch.store.vault import Vault\n"
        "vault = Vault(Path(sys.argv[1]), Path(sys.argv[2])); print('ready', flush=True)\n"
        "while True: vault.rotate()"
    )
    for _ in range(8):
        with Forked(
            [sys.executable, "-c", rotating, path, keys_path], env=PLAIN, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(random.uniform(0.005, 0.05))
            child.kill()
        assert {name: vault.get(name) for name in secrets} == secrets
    vault.rotate()
    assert len(keys_path.read_bytes().splitlines()) == 1


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    writing = (
        "import sys; from pathlib import Path; from hutch.store.vault import Vault\n"
        "vault = Vault(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "for turn in range(5): vault.set(f'secret_{sys.argv[3]}_{turn}', f'value {turn}'); vault.rotate()"
    )
    writers = [
        Forked([sys.executable, "-c", writing, *files(tmp_path), str(number)], env=PLAIN)
        for number in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    vault = vault_at(tmp_path)
    expected = {f"secret_{number}_{turn}": f"value {turn}" for number in range(4) for turn in range(5)}
    assert {name: vault.get(name) for name in vault.names()} == expected


@pytest.mark.parametrize("open_mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_file_open_to_others_is_refused_with_the_command_that_closes_it(
    tmp_path: Path, open_mode: int
) -> None:
    home = tmp_path / "with space"
    vault = vault_at(home)
    vault.set("github_token", "value")
    keys_path = files(home)[1]
    keys_path.chmod(open_mode)
    for attempt in (lambda: vault.get("github_token"), lambda: vault.set("github_token", "v"), vault.rotate):
        with pytest.raises(Unavailable) as refused:
            attempt()
        assert str(refused.value).endswith(f"chmod 600 '{keys_path}'")
        assert f"mode {open_mode:04o}" in str(refused.value)
    keys_path.chmod(0o600)
    assert vault.get("github_token") == "value"


def test_a_lost_key_file_is_reported_and_never_replaced_silently(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    keys_path = files(tmp_path)[1]
    keys_path.unlink()
    for attempt in (lambda: vault.get("github_token"), lambda: vault.set("other", "v"), vault.rotate):
        with pytest.raises(Unavailable, match=r"is missing or empty. Restore it from a backup, or move"):
            attempt()
    assert not keys_path.exists()
    assert vault.names() == ["github_token"]


def test_a_wrong_key_is_reported_and_setting_the_secret_again_repairs_it(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    keys_path = files(tmp_path)[1]
    keys_path.write_bytes(Fernet.generate_key())
    for attempt in (lambda: vault.get("github_token"), vault.rotate):
        with pytest.raises(Unavailable, match=r"cannot be decrypted .* hutch config set-secret github_token"):
            attempt()
    vault.set("github_token", "again")
    assert vault.get("github_token") == "again"


def test_a_token_moved_to_another_name_is_noticed(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b"github_token", b"webhook_token"))
    with pytest.raises(Unavailable, match=r"'webhook_token' .* was stored as 'github_token'"):
        vault.get("webhook_token")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b'{"A\\n": "x"}', b"\xff"])
def test_a_damaged_vault_is_reported(tmp_path: Path, content: bytes) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    files(tmp_path)[0].write_bytes(content)
    with pytest.raises(Unavailable, match=r"is damaged. Restore it from a backup"):
        vault.names()


def test_a_damaged_key_file_is_reported_without_its_content(tmp_path: Path) -> None:
    vault = vault_at(tmp_path)
    vault.set("github_token", "value")
    files(tmp_path)[1].write_bytes(b"not-a-key\n")
    with pytest.raises(Unavailable, match="each line must be one Fernet key") as setup:
        vault.get("github_token")
    assert "not-a-key" not in str(setup.value)


def test_a_vault_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be opened: File exists"):
        vault_at(tmp_path / "file").set("github_token", "value")
