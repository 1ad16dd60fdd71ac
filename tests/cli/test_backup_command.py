"""`hutch backup` and `hutch restore`, run as an operator would."""

import io
import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import httpx
import pytest

from tests.cli.hutch_up_process import Home
from tests.deadline import DEADLINE_S
from tests.flows.backups.installations import TREE, installation
from tests.forked_command import HUTCH, Forked, run


def hutch(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(
        [HUTCH, *words],
        env={"HUTCH_HOME": str(home), "PATH": os.defpath},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    installation(tmp_path / "home")
    return tmp_path / "home"


def test_a_backup_is_written_checked_and_restored(tmp_path: Path, home: Path) -> None:
    file, to = tmp_path / "backup.tar.gz", tmp_path / "to"
    written = hutch(home, "backup", str(file))
    assert (written.returncode, written.stdout) == (0, "")
    assert f"written to {file}" in written.stderr
    assert "who can read this file can read all API keys" in written.stderr
    assert (file.stat().st_mode & 0o777, file.read_bytes()[:2]) == (0o600, b"\x1f\x8b")
    checked = hutch(home, "backup", "verify", str(file))
    assert (checked.returncode, checked.stdout.splitlines()[0][:16]) == (0, "ok: a backup of ")
    assert "2 with 5 events: 2 of 2 chains and their signatures are right" in checked.stdout
    restored = hutch(home, "restore", str(file), "--into", str(to))
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "2 of 2 chains and their signatures are right" in restored.stdout
    assert restored.stdout.endswith(f"Start it: HUTCH_HOME={to} hutch up\n")
    assert hutch(to, "log", "--json").stdout == hutch(home, "log", "--json").stdout


def test_programs_get_json(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "backup.tar"
    written = hutch(home, "backup", "create", str(file), "--no-keys", "--json")
    result = json.loads(written.stdout)
    assert {name: result[name] for name in ("file", "size", "keys", "logs", "events", "omitted")} == {
        **{"file": str(file), "size": file.stat().st_size, "keys": False},
        **{"logs": 2, "events": 5, "omitted": 0},
    }
    verified = {"logs": 2, "events": 5, "erased": 0, "unsigned": 0, "problems": {}}
    for words in (("backup", "verify", str(file)), ("restore", str(file), "--into", str(tmp_path / "to"))):
        found = json.loads(hutch(home, *words, "--json").stdout)["verified"]
        assert len(found.pop("signing_keys")) == 1
        assert found == verified


def test_a_restoration_without_keys_says_where_they_belong(tmp_path: Path, home: Path) -> None:
    written = hutch(home, "backup", str(tmp_path / "backup"), "--no-keys")
    assert f"Store a copy of {home / 'data/keys'} apart" in written.stderr
    restored = hutch(home, "restore", str(tmp_path / "backup"), "--into", str(tmp_path / "to"))
    assert f"Put them into {tmp_path / 'to/data/keys'} before you start" in restored.stderr


def test_a_backup_goes_through_a_pipe(home: Path) -> None:
    with Forked(
        [HUTCH, "backup", "-"],
        env={"HUTCH_HOME": str(home), "PATH": os.defpath},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    with tarfile.open(fileobj=io.BytesIO(output)) as archive:
        names = archive.getnames()
    assert (names[0], names[1], names[-1]) == ("hutch-backup.json", "data", "manifest.json")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("backup", "{home}/config.toml"), 2, "config.toml exists. Choose another name."),
        (("backup", "{home}"), 2, "is a directory. Give the path of a file in it."),
        (("backup", "{home}/none/backup"), 2, "does not exist. Create it first."),
        (("backup", "{home}/data/backup"), 2, "is in the data directory, which is backed up."),
        (("backup", "-", "--json"), 2, "goes into a pipe or a file, without --json"),
        (("backup", "verify", "{home}/none"), 2, "There is no file"),
        (("backup", "verify", "{home}"), 2, "is a directory. Name a file that hutch backup wrote."),
        (("backup", "verify", "{home}/config.toml"), 2, "The backup is cut short."),
        (("restore", "{home}/config.toml"), 2, "There is an installation in {home}/data."),
        (("restore", "{home}/config.toml", "--into", "{home}/new"), 2, "The backup is cut short."),
        (("restore", "{home}/none", "--into", "{home}/new"), 2, "There is no file"),
    ],
)
def test_wrong_words_are_explained(home: Path, words: tuple[str, ...], code: int, message: str) -> None:
    before = sorted(home.iterdir())
    refused = hutch(home, *(word.format(home=home) for word in words))
    assert (refused.returncode, refused.stdout) == (code, "")
    assert message.format(home=home) in refused.stderr
    assert sorted(home.iterdir()) == before


def test_an_empty_installation_has_nothing_to_back_up(tmp_path: Path) -> None:
    refused = hutch(tmp_path, "backup", "backup.tar")
    assert (refused.returncode, "nothing to back up" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_backup_and_nothing_is_left(home: Path, number: signal.Signals) -> None:
    (home / "data" / TREE / "large").write_bytes(bytes(1 << 25))  # far more than the pipe and a step hold
    with Forked(
        [HUTCH, "backup", "-"],
        env={"HUTCH_HOME": str(home), "PATH": os.defpath},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stdout.read(1)  # it has begun, and waits for its reader
        process.send_signal(number)
        while process.stdout.read(1 << 16):
            pass
        process.wait(timeout=DEADLINE_S)
        assert process.stderr and b"stopped. Nothing was left behind." in process.stderr.read()
    assert process.returncode == 128 + number
    assert list((home / "data/backups").iterdir()) == []


@pytest.mark.long
def test_a_running_server_is_backed_up_and_never_replaced(tmp_path: Path) -> None:
    server = Home(tmp_path)
    with server.up() as up:
        body = {"purpose": "of a backup"}
        opened = httpx.post(f"{up.url}/api/v1/sessions", json=body, headers=up.owner(), trust_env=False)
        session = opened.json()["id"]
        written = server.hutch("backup", str(tmp_path / "backup"), "--json")
        assert json.loads(written.stdout)["logs"] == 1
        for words in ((), ("--move-aside",)):
            refused = server.hutch("restore", str(tmp_path / "backup"), *words)
            assert (refused.returncode, "A server is running" in refused.stderr) == (2, True)
    moved = server.hutch("restore", str(tmp_path / "backup"), "--move-aside", "--json")
    assert [Path(path).is_dir() for path in json.loads(moved.stdout)["moved"]] == [True]
    with server.up() as up:
        shown = up.get(f"/api/v1/sessions/{session}", headers=up.owner())
        assert (shown.status_code, shown.json()["purpose"]) == (200, "of a backup")
