"""A server whose database or data directory vanishes acknowledges nothing more, says so, and ends."""

import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.hutch_up_process import TIMEOUT_S, Home


def unlink(data: Path) -> None:
    (data / "hutch.db").unlink()


def move(data: Path) -> None:
    data.rename(data.with_name("moved"))


def replace(data: Path) -> None:
    shutil.copy(data / "hutch.db", data / "other.db")
    (data / "other.db").replace(data / "hutch.db")


def delete_all(data: Path) -> None:
    shutil.rmtree(data)


def cut(data: Path) -> None:
    os.truncate(data / "hutch.db", 0)


def cut_half(data: Path) -> None:
    os.truncate(data / "hutch.db", (data / "hutch.db").stat().st_size // 2)


def unlink_wal(data: Path) -> None:
    (data / "hutch.db-wal").unlink()


def replace_wal(data: Path) -> None:
    unlink_wal(data)
    (data / "hutch.db-wal").touch()


def unlink_index(data: Path) -> None:
    (data / "hutch.db-shm").unlink()


def cut_wal(data: Path) -> None:
    os.truncate(data / "hutch.db-wal", 0)


def cut_half_of_wal(data: Path) -> None:
    os.truncate(data / "hutch.db-wal", (data / "hutch.db-wal").stat().st_size // 2)


DAMAGES = [cut, cut_half, unlink_wal, replace_wal, unlink_index, cut_wal, cut_half_of_wal]


@pytest.mark.parametrize("vanish", [unlink, move, replace, *DAMAGES])
def test_a_server_without_its_database_ends(tmp_path: Path, vanish: Callable[[Path], None]) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server:
        process, url = server.process, server.printed["url"]
        with httpx.Client(base_url=url, headers=server.owner(), timeout=TIMEOUT_S) as client:
            before = client.post("/api/v1/tokens", json={"name": "before"})
            vanish(home.data)
            try:
                after = client.post("/api/v1/tokens", json={"name": "after"})
                ready = client.get("/readyz")
            except httpx.TransportError:  # it has ended by now
                after = ready = None
        process.communicate(timeout=TIMEOUT_S)
    said = (tmp_path / "up.err").read_text()
    assert before.status_code == 201, before.text
    assert after is None or after.status_code == 503, after.text
    assert ready is None or ready.status_code == 503
    assert process.returncode == 7
    assert "hutch.db" in said and "Traceback" not in said, said
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", urlsplit(url).port))
    assert "No server is running" in home.hutch("status").stdout


def test_an_installation_that_lost_its_database_is_not_begun_anew_by_itself(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up():
        pass
    for lose in (home.data / "hutch.db").unlink, (home.data / "hutch.db").touch:
        lose()
        for words in (("up", "--port", "0"), ("users", "list"), ("log",)):
            refused = home.hutch(*words)
            assert refused.returncode == 6, refused.stderr
            assert "hutch up --new" in refused.stderr and "Traceback" not in refused.stderr
    with home.up("--new") as server:
        assert server.get("/readyz").status_code == 200
    again = home.hutch("up", "--port", "0", "--new")
    assert again.returncode == 2 and "There is a database" in again.stderr


@pytest.mark.parametrize(
    "left", ["keys/local.token", "backups/hutch-1.db", "workspaces/session-1/file", "blobs/a"]
)
def test_traces_of_an_installation_without_its_database_are_not_begun_over(tmp_path: Path, left: str) -> None:
    home = Home(tmp_path, is_new=True)
    (home.data / left).parent.mkdir(parents=True)
    (home.data / left).write_text("left")
    refused = home.hutch("up", "--port", "0")
    assert refused.returncode == 6 and "hutch up --new" in refused.stderr, refused.stderr
    assert not (home.data / "hutch.db").exists()


def test_a_young_installation_that_lost_its_write_ahead_file_is_not_begun_over(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server:
        token = home.token
        server.process.kill()
        server.process.communicate(timeout=TIMEOUT_S)
    unlink_wal(home.data)
    refused = home.hutch("up", "--port", "0")
    assert refused.returncode == 6 and "hutch.db-wal is missing" in refused.stderr, refused.stderr
    assert f"make a copy of {home.data} first" in refused.stderr
    unlink_index(home.data)
    for words in (("up", "--port", "0"), ("users", "list"), ("log",)):
        refused = home.hutch(*words)
        assert refused.returncode == 6, refused.stdout
        assert "has no users and no logs" in refused.stderr and "hutch up --new" in refused.stderr
    assert home.token == token
    with home.up("--new") as server:
        assert server.get("/api/v1/tokens", headers=server.owner()).status_code == 200
    with home.up() as server:
        assert server.get("/readyz").status_code == 200


@pytest.mark.parametrize("words", [("log",), ("users", "list"), ("sessions", "list")])
def test_reading_an_empty_home_does_not_hinder_the_first_start(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    home = Home(tmp_path, is_new=True)
    home.hutch(*words)
    with home.up() as server:
        assert server.get("/readyz").status_code == 200


@pytest.mark.parametrize("damage", [unlink_wal, replace_wal])
def test_acknowledged_data_is_saved_when_the_write_ahead_file_is_deleted(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    home = Home(tmp_path, is_new=True)
    acknowledged: list[str] = []
    with home.up() as server, httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client:
        client.headers = httpx.Headers(server.owner())
        for number in range(30):
            if number == 20:
                damage(home.data)
            with suppress(httpx.TransportError):  # it has ended by now
                if client.post("/api/v1/tokens", json={"name": f"token-{number}"}).status_code == 201:
                    acknowledged.append(f"token-{number}")
        server.process.communicate(timeout=TIMEOUT_S)
        assert server.process.returncode == 7
    assert len(acknowledged) == 20
    with home.up() as server:
        kept = server.get("/api/v1/tokens", headers=server.owner()).text
    assert [name for name in acknowledged if f'"{name}"' not in kept] == []


def test_after_a_truncation_the_next_start_reports_possible_losses(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server:
        cut_half_of_wal(home.data)
        server.process.communicate(timeout=TIMEOUT_S)
    for words in (("up", "--port", "0"), ("log",)):
        refused = home.hutch(*words)
        assert refused.returncode == 6 and "may be missing" in refused.stderr, refused.stderr
    for file in ("hutch.db.damaged", "hutch.db-shm"):  # as it says
        assert file in refused.stderr
        (home.data / file).unlink()
    with home.up() as server:
        assert server.get("/readyz").status_code == 200


def test_a_server_whose_write_ahead_file_is_emptied_ends_without_a_request(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server:
        cut_wal(home.data)
        server.process.communicate(timeout=TIMEOUT_S)
        assert server.process.returncode == 7


def test_a_server_whose_write_ahead_file_is_emptied_is_not_ready(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server:
        process = server.process
        with httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client:
            assert client.get("/readyz").status_code == 200
            cut_wal(home.data)
            with suppress(httpx.TransportError):  # it has ended by now
                assert client.get("/readyz").status_code == 503
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 7


@pytest.mark.parametrize("name", ["comments", "shares", "ix_comments_change_id"])
def test_an_overwritten_page_is_found_before_a_server_starts(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up():
        pass
    database = home.data / "hutch.db"
    with closing(sqlite3.connect(database)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"))
    content = bytearray(database.read_bytes())
    page = pages[name]
    content[(page - 1) * size : page * size] = b"\xff" * size
    database.write_bytes(content)
    refused = home.hutch("up", "--port", "0")
    assert refused.returncode == 6 and "is damaged" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr and "backups" in refused.stderr


@pytest.mark.parametrize("damage", [move, cut, unlink_wal])
def test_a_file_that_was_written_without_a_record_is_answered_as_unavailable(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as server, httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client:
        client.headers = httpx.Headers(server.owner())
        path = f"/api/v1/sessions/{client.post('/api/v1/sessions', json={}).json()['id']}/files"
        until = time.monotonic() + TIMEOUT_S
        while client.put(f"{path}/first", content=b"1").status_code != 201:
            assert time.monotonic() < until
            time.sleep(0.1)
        damage(home.data)
        with suppress(httpx.TransportError):  # it has ended by now
            for number in range(20):
                refused = client.put(f"{path}/later-{number}", content=b"2")
                assert (refused.status_code, refused.json()["code"]) == (503, "unavailable"), refused.text
        server.process.communicate(timeout=TIMEOUT_S)
        assert server.process.returncode == 7


def test_a_first_start_is_reported(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    for _ in range(2):
        try:
            begun = home.hutch("up", "--detach", "--port", "0")
            assert begun.returncode == 0, begun.stderr
            assert f"This is the first server on {home.data}" in begun.stdout
        finally:
            assert home.hutch("down").returncode == 0
        again = home.hutch("up", "--detach", "--port", "0")
        assert home.hutch("down").returncode == 0
        assert "first server" not in again.stdout
        delete_all(home.data)


def jailed(seconds: str) -> list[str]:
    """The processes on this machine that sleep for so long."""
    wanted, found = f"sleep\0{seconds}\0".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if (process / "cmdline").read_bytes() == wanted:
                found.append(process.name)
    return found


def test_a_server_without_its_data_directory_leaves_no_jail_behind(tmp_path: Path) -> None:
    home, seconds = Home(tmp_path, is_new=True), f"9{os.getpid()}"
    with home.up() as server, httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client:
        client.headers = httpx.Headers(server.owner())
        session = client.post("/api/v1/sessions", json={}).json()["id"]
        until = time.monotonic() + TIMEOUT_S
        while client.get(f"/api/v1/sessions/{session}").json()["state"] not in ("idle", "parked"):
            assert time.monotonic() < until
            time.sleep(0.1)
        command = {"command": f"exec sleep {seconds}", "yield_s": 1}
        begun = client.post(f"/api/v1/sessions/{session}/commands", json=command)
        assert begun.status_code == 200, begun.text
        while not jailed(seconds):
            assert time.monotonic() < until
            time.sleep(0.1)
        move(home.data)
        server.process.communicate(timeout=TIMEOUT_S)
        assert server.process.returncode == 7
        while jailed(seconds):  # the kernel ends them with the server, and takes a moment
            assert time.monotonic() < until
            time.sleep(0.1)
    assert not home.data.exists()
