"""A server is found by those on its machine while it runs, and not a moment longer."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hutch.app.records import only_server
from hutch.app.running import Running, announced, find_server, local_token
from hutch.settings import Paths
from hutch.system.process import birth_of

URL = "http://127.0.0.1:8484"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.of({"HUTCH_HOME": str(tmp_path / "home")})


def test_a_server_that_is_announced_is_found_with_its_token(paths: Paths) -> None:
    with only_server(paths), announced(paths, URL, token="hutch_secret") as running:
        assert find_server(paths) == running
        assert (running.pid, running.url, local_token(paths)) == (os.getpid(), URL, "hutch_secret")


def test_what_is_announced_is_for_its_owner_alone(paths: Paths) -> None:
    with only_server(paths), announced(paths, URL, token="hutch_secret"):
        modes = {file.stat().st_mode & 0o777 for file in (paths.server_file, paths.local_token)}
        assert modes == {0o600}
        assert {paths.data.stat().st_mode & 0o077, paths.keys.stat().st_mode & 0o077} == {0}


def test_a_server_that_has_ended_is_not_found(paths: Paths) -> None:
    with only_server(paths), announced(paths, URL, token="hutch_secret"):
        pass
    assert (find_server(paths), local_token(paths)) == (None, None)


def test_one_that_does_not_hold_the_lock_is_not_the_server(paths: Paths) -> None:
    with announced(paths, URL):
        assert find_server(paths) is None


def test_what_a_killed_server_left_is_stale(paths: Paths) -> None:
    script = (
        "import sys, time; from hutch.settings import find_paths\n"
        "from hutch.app.records import only_server; from hutch.app.running import announced\n"
        f"with only_server(find_paths()), announced(find_paths(), {URL!r}):\n"
        "    print('up', flush=True); time.sleep(60)\n"
    )
    environment = {"HUTCH_HOME": str(paths.data.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        found = find_server(paths)
        assert found is not None and found.pid == process.pid
        process.kill()
    assert paths.server_file.exists()
    assert find_server(paths) is None


def test_another_process_with_its_number_is_not_taken_for_it(paths: Paths) -> None:
    with only_server(paths), announced(paths, URL) as running:
        paths.server_file.write_text(json.dumps(asdict(replace(running, born="another boot/1"))))
        assert find_server(paths) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"pid": 1}', '{"pid":"x","url":1,"started_ms":2,"born":""}']
)
def test_nonsense_in_its_place_is_no_server(paths: Paths, text: str) -> None:
    with only_server(paths):
        paths.server_file.write_text(text)
        assert find_server(paths) is None


def test_a_process_has_one_birth_and_the_dead_have_none() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert birth_of(os.getpid()) == birth_of(os.getpid()) != ""
    assert birth_of(done.pid) == ""
    assert Running(1, URL, 0, "").certificate == ""
