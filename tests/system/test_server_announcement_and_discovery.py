"""A server is found by those on its machine while it runs, and not a moment longer."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hutch.settings import Paths
from hutch.store.process_lock import hold_process_lock
from hutch.system.process_identity import start_stamp
from hutch.system.server_announcement_and_discovery import (
    RunningServer,
    ServerFiles,
    announced,
    find_server,
    local_token,
)

URL = "http://127.0.0.1:8484"


@pytest.fixture
def files(tmp_path: Path) -> ServerFiles:
    return Paths.of({"HUTCH_HOME": str(tmp_path / "home")}).server_files


def test_a_server_that_is_announced_is_found_with_its_token(files: ServerFiles) -> None:
    with (
        hold_process_lock(files.lock, holder="Hutch server"),
        announced(files, URL, token="hutch_secret") as running,
    ):
        assert find_server(files) == running
        assert (running.pid, running.url, local_token(files)) == (
            os.getpid(),
            URL,
            "hutch_secret",
        )


def test_only_the_owner_can_read_the_announcement(files: ServerFiles) -> None:
    with hold_process_lock(files.lock, holder="Hutch server"), announced(files, URL, token="hutch_secret"):
        modes = {file.stat().st_mode & 0o777 for file in (files.announcement, files.token)}
        assert modes == {0o600}
        assert {files.lock.parent.stat().st_mode & 0o077, files.token.parent.stat().st_mode & 0o077} == {0}


def test_a_server_that_has_ended_is_not_found(files: ServerFiles) -> None:
    with hold_process_lock(files.lock, holder="Hutch server"), announced(files, URL, token="hutch_secret"):
        pass
    assert (find_server(files), local_token(files)) == (None, None)


def test_one_that_does_not_hold_the_lock_is_not_the_server(files: ServerFiles) -> None:
    with announced(files, URL):
        assert find_server(files) is None


def test_files_of_a_killed_server_are_stale(files: ServerFiles) -> None:
    script = (
        "import sys, time; from hutch.settings import find_paths\n"
        "from hutch.store.process_lock import hold_process_lock\n"
        "from hutch.system.server_announcement_and_discovery import announced\n"
        "files = find_paths().server_files\n"
        f"with hold_process_lock(files.lock, holder='Hutch server'), announced(files, {URL!r}):\n"
        "    print('up', flush=True); time.sleep(60)\n"
    )
    environment = {"HUTCH_HOME": str(files.lock.parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        found = find_server(files)
        assert found is not None and found.pid == process.pid
        process.kill()
    assert files.announcement.exists()
    assert find_server(files) is None


def test_another_process_with_its_number_is_not_taken_for_it(files: ServerFiles) -> None:
    with hold_process_lock(files.lock, holder="Hutch server"), announced(files, URL) as running:
        files.announcement.write_text(json.dumps(asdict(replace(running, born="another boot/1"))))
        assert find_server(files) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"pid": 1}', '{"pid":"x","url":1,"started_ms":2,"born":""}']
)
def test_nonsense_in_its_place_is_no_server(files: ServerFiles, text: str) -> None:
    with hold_process_lock(files.lock, holder="Hutch server"):
        files.announcement.write_text(text)
        assert find_server(files) is None


def test_a_process_has_one_birth_and_the_dead_have_none() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert start_stamp(os.getpid()) == start_stamp(os.getpid()) != ""
    assert start_stamp(done.pid) == ""
    assert RunningServer(1, URL, 0, "").certificate == ""
