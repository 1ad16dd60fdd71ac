"""`hutch tasks` after a login: online, without the server, and when others change the same tasks."""

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.hutch_up_process import Home, Up
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, run

SHOP = "https://github.com/acme/shop.git"


class Laptop:
    """Another installation, logged in to a server."""

    def __init__(self, place: Path, up: Up) -> None:
        self.place = place
        self.repository = place / "shop"
        (self.repository / ".git").mkdir(parents=True)
        (self.repository / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {SHOP}\n')
        made = up.home.hutch("tokens", "create", "--json", "--name", "laptop")
        assert made.returncode == 0, made.stderr
        self.token = json.loads(made.stdout)["token"]
        self.hutch("login", up.url, typed=self.token)

    def hutch(self, *words: str, code: int = 0, typed: str = "") -> "subprocess.CompletedProcess[str]":
        done = run(
            [HUTCH, *words],
            cwd=self.repository,
            env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(self.place / "home")},
            input=typed,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def tasks(self, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        return self.hutch("tasks", *words, code=code)

    @property
    def outbox_directory(self) -> Path:
        [found] = (self.place / "home").glob("state/server-tasks/*/outbox")
        return found

    def outbox(self) -> list[Path]:
        return sorted(self.outbox_directory.glob("[0-9]*.json"))


@pytest.fixture
def port() -> Iterator[str]:
    """A port that no other process gets while no server of ours listens on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # our servers set it, too
        held.bind(("127.0.0.1", 0))
        yield str(held.getsockname()[1])


@pytest.mark.long
def test_changes_wait_offline_and_conflicts_are_listed_and_resolved(tmp_path: Path, port: str) -> None:
    home = Home(tmp_path / "server", is_new=True)
    home.place.mkdir()
    with home.up("--port", port) as up:
        laptop = Laptop(tmp_path / "laptop", up)
        me = httpx.get(
            f"{up.url}/api/v1/me", headers={"Authorization": f"Bearer {laptop.token}"}, trust_env=False
        )
        name = me.json()["user"]["name"]
        laptop.tasks("add", "Fix login", "--label", "bug", "--owner", name)
        laptop.tasks("add", "Slow search")
        laptop.tasks("edit", "T-2", "--criterion", "fast")
        bugs = laptop.tasks("list", "--label", "bug", "--save", "my bugs").stdout
        assert laptop.tasks("list", "--filter", "my bugs").stdout == bugs
        assert bugs.count("T-") == 1
        assert laptop.tasks("list").stdout.splitlines() == [
            "T-2      todo      Slow search",
            f"T-1      todo      Fix login @{name} #bug",
        ]
        assert laptop.tasks("prompt").stdout == "1 task\n"
        refused = laptop.tasks("edit", "T-1", "--label", "not a label", code=2)
        assert "cannot be a label" in refused.stderr
        assert laptop.outbox() == []
        laptop.tasks("edit", "T-2", "--after", "T-1")  # so it waits, and no agent begins
        assert laptop.tasks("assign", "T-2").stdout.startswith("engineer waiting")
        assert laptop.tasks("work", "T-2").stdout.startswith("engineer waiting")
        assert laptop.tasks("unassign", "T-2").stdout == "engineer cancelled: cancelled by a user\n"
        # The database of the laptop itself is another place.
        assert laptop.tasks("list", "--local").stdout == ""

    offline = laptop.tasks("list")
    assert offline.stdout.splitlines()[1] == f"T-1      todo      Fix login @{name} #bug"
    assert "offline" in offline.stderr and "Tasks as of" in offline.stderr
    assert "Agents are assigned there" in laptop.tasks("assign", "T-1", code=6).stderr
    laptop.tasks("edit", "T-1", "--priority", "high", "--label", "bug", "--label", "mine")
    laptop.tasks("done", "T-2")
    laptop.tasks("edit", "T-2", "--met", "1")
    added = laptop.tasks("add", "From the train")
    new = added.stdout.split()[0]
    laptop.tasks("edit", new, "--state", "doing")
    laptop.tasks("comment", new, "no network here")
    assert "6 changes wait" in laptop.tasks("list").stderr
    assert "(high)" in laptop.tasks("show", "T-1").stdout
    assert laptop.tasks("prompt").stdout == "1 task · 6 unsent\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in laptop.outbox()} == {0o600}
    assert "not sent" in laptop.hutch("logout", code=2).stderr  # nothing is lost by a logout
    kept = tmp_path / "kept"
    shutil.copytree(laptop.outbox()[0].parent, kept)

    with home.up("--port", port) as up:
        assert up.url.endswith(port)
        api = httpx.Client(
            base_url=f"{up.url}/api/v1",
            headers={"Authorization": f"Bearer {laptop.token}"},
            trust_env=False,
            timeout=DEADLINE_S,
        )
        # Somebody else changes the same field, another entry of the same list, and another task.
        where = {"repository": SHOP}
        theirs = {"priority": "urgent", "labels": ["bug", "theirs"]}
        assert api.patch("/tasks/T-1", params=where, json=theirs).status_code == 200
        assert api.patch("/tasks/T-2", params=where, json={"estimate": "3h"}).status_code == 200
        back = laptop.tasks("list", "--all")
        assert "not stored: your earlier change of T-1. Compare and choose" in back.stderr
        listed = back.stdout
        assert "T-3      doing     From the train" in listed and "T-2      done " in listed
        conflict = laptop.tasks("conflicts").stdout
        assert "yours:  high" in conflict and "theirs: urgent" in conflict
        assert api.get("/tasks/T-1", params=where).json()["fields"]["priority"] == "urgent"
        laptop.tasks("resolve", "T-1", "--mine")
        assert api.get("/tasks/T-2", params=where).json()["fields"]["estimate"] == "3h"
        # A crash after the server has stored the changes, before the outbox was emptied: all are sent again.
        shutil.copytree(kept, laptop.outbox_directory, dirs_exist_ok=True)
        laptop.tasks("list")
        assert laptop.outbox() == []
        stored = {each["key"]: each for each in api.get("/tasks", params=where).json()["items"]}
        assert sorted(stored) == ["T-1", "T-2", "T-3"]
        assert stored["T-2"]["fields"]["criteria"] == [{"text": "fast", "done": True}]
        assert stored["T-1"]["fields"]["priority"] == "high"
        assert stored["T-1"]["fields"]["labels"] == ["bug", "mine", "theirs"]
        history = api.get(f"/tasks/{stored['T-3']['id']}/history").json()["items"]
        assert [each["note"] for each in history if each["kind"] == "comment"] == ["no network here"]
        api.close()
        laptop.hutch("logout")
        assert list((tmp_path / "laptop/home/state/server-tasks").iterdir()) == []


@pytest.mark.long
def test_a_clone_syncs_its_file_with_the_server_of_the_login(tmp_path: Path) -> None:
    home = Home(tmp_path / "server", is_new=True)
    home.place.mkdir()
    with home.up() as up:
        laptop = Laptop(tmp_path / "laptop", up)
        file = laptop.repository / "docs" / "TASKS.md"
        file.parent.mkdir()
        file.write_text("- [ ] Fix login\n- [ ] Slow search\n")
        added = "added T-1 Fix login\nadded T-2 Slow search\nTASKS.md: 2 lines written\n"
        assert laptop.tasks("sync").stdout == added
        laptop.tasks("edit", "T-1", "--title", "Board")
        laptop.tasks("edit", "T-2", "--priority", "high")
        file.write_text(file.read_text().replace("Fix login", "From the file"))
        synced = laptop.tasks("sync")
        assert synced.stdout == "changed T-1 From the file\nTASKS.md: 1 line written\n"
        assert "conflict T-1 title: file 'From the file', stored 'Board'" in synced.stderr
        assert "priority=high" in file.read_text()
        assert json.loads(laptop.tasks("sync", "--json").stdout)["updates"] == []
        shown = laptop.tasks("list").stdout
        assert "From the file" in shown and "this machine" not in synced.stderr
        here = laptop.tasks("sync", "--local", "--dry-run").stderr  # its own tasks: none yet
        assert here.splitlines()[:2] == ["added T-1 From the file", "added T-2 Slow search"]

        file.write_bytes(file.read_bytes() + b"caf\xe9\n")
        assert "is not UTF-8" in laptop.tasks("sync", code=2).stderr
        file.write_bytes(file.read_bytes().replace(b"caf\xe9\n", b"- [ ] Offline\n"))
        assert up.end() == 0
    text = file.read_text()
    laptop.tasks("sync", code=6)
    assert file.read_text() == text
