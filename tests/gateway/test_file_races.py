"""The files API while a program in the jail exchanges what the paths name.

The program swaps directories and files with links to a directory of the host that everybody may read
and write, so that nothing but the way in which paths are opened protects it.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.api_server import V1, Api

pytestmark = pytest.mark.anyio
SECRET = "kept-outside-of-every-jail"

# Swaps `d` with a link to the directory, `e/f` with a link to the file, and `e/p` with a fifo, until stopped.
SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
outside = sys.argv[1]
def renew():
    for name in ("d", "e"):
        os.makedirs(name, exist_ok=True)
    for name in ("d/f", "e/f", "e/p"):
        if not os.path.lexists(name):
            open(name, "w").write("mine\\n")
    for name, target in (("ld", outside), ("lf", outside + "/f"), ("lp", "/proc/self/root" + outside)):
        if not os.path.islink(name) and not os.path.lexists(name):
            os.symlink(target, name)
    if not os.path.lexists("fifo"):
        os.mkfifo("fifo")
def exchange(one, other):
    libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
count = 0
while not os.path.exists("stop"):
    try:
        renew()
    except OSError:
        pass  # the other side removes and restores meanwhile
    for one, other in (("d", "ld"), ("e/f", "lf"), ("e/p", "fifo"), ("e", "lp")) * 20:
        exchange(one, other)
        count += 1
print(count)
"""


@asynccontextmanager
async def _swapping(api: Api, url: str, outside: Path) -> AsyncIterator[None]:
    await api.put(f"{url}/files/swap.py", content=SWAP.encode())
    command = {"command": f"python3 swap.py {outside}", "shell": "swaps", "timeout_s": 600}
    running = asyncio.create_task(api.post(f"{url}/commands", json=command))
    try:
        yield
    finally:
        await api.put(f"{url}/files/stop", content=b"")
        ended = (await running).json()
    assert int(ended["stdout"]) > 1000, ended


def _state(outside: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in (outside, *sorted(outside.rglob("*"))):
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_uid, content)
    return found


def _requests(url: str, number: int, snapshot: int) -> list[tuple[str, str, dict[str, Any]]]:
    edits = [{"old": "mine", "new": "mine"}, {"start_line": 1, "end_line": 1, "new": f"mine {number}"}]
    patch = "--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-mine\n+yours\n"
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "grep", {"params": {"pattern": SECRET[:10]}}),
        ("GET", "glob", {"params": {"pattern": "**/*"}}),
        ("GET", "diff", {"params": {"old": snapshot}}),
        ("GET", "files", {"params": {"path": "", "recursive": True, "limit": 1000}}),
        ("POST", "patch", {"json": {"patch": patch}}),
        ("POST", "snapshots", {}),
        ("POST", f"snapshots/{snapshot}/restore", {}),
        ("POST", "move", {"json": {"path": "d", "to": f"moved{number}"}}),
        ("DELETE", "files/d", {}),
        ("DELETE", "files/e/f", {}),
    ]
    for path in ("d/f", "e/f", "e/p", "fifo", "ld/f", "lf", "lp"):
        asked += [
            ("GET", f"files/{path}", {}),
            ("PUT", f"files/{path}", {"content": b"mine\n"}),
            ("POST", "edit", {"json": {"path": path, "edits": edits[number % 2 :][:1]}}),
        ]
    for above in ("d", "e", "ld"):
        asked += [
            ("GET", "files", {"params": {"path": above}}),
            ("PUT", f"files/{above}/new{number}", {"content": b"mine\n"}),
            ("POST", "directories", {"json": {"path": f"{above}/sub{number}/deep"}}),
            ("POST", "move", {"json": {"path": "swap.py", "to": f"{above}/swap.py"}}),
            ("POST", "move", {"json": {"path": f"{above}/swap.py", "to": "swap.py"}}),
        ]
    return asked


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.soak)])
async def test_exchanged_directories_lead_no_request_out_of_the_workspace(
    api: Api, tmp_path: Path, rounds: int
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text(f"mine\n{SECRET}\n")
    for path in (*reversed(tmp_path.parents[:-1]), tmp_path):
        if path.stat().st_uid == os.getuid() and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o005)
    outside.chmod(0o777)
    (outside / "f").chmod(0o666)
    before = _state(outside)
    url = f"{V1}/sessions/{await api.ready_session(purpose='races')}"
    for path in ("d/f", "e/f", "e/p"):
        await api.put(f"{url}/files/{path}", content=b"mine\n")
    snapshot = (await api.post(f"{url}/snapshots")).json()["id"]
    answers: dict[int, int] = {}
    async with _swapping(api, url, outside):
        for number in range(rounds):
            for method, path, what in _requests(url, number, snapshot):
                got = await api.request(method, f"{url}/{path}", **what)
                answers[got.status_code] = answers.get(got.status_code, 0) + 1
                assert SECRET not in got.text, (method, path)
                assert got.status_code < 500 or got.json()["code"] == "unavailable", (method, path, got.text)
    assert _state(outside) == before
    assert answers.get(200, 0) > rounds and sum(answers.values()) - answers[200] > rounds, answers


async def test_hashes_of_a_file_that_is_all_holes_do_not_hold_up_other_requests(api: Api) -> None:
    """It takes no space on disk, and a user with read access can request its hash again and again."""
    url = f"{V1}/sessions/{await api.ready_session(purpose='holes')}"
    await api.post(f"{url}/commands", json={"command": "truncate -s 600M holes"})
    threads = min(32, (os.cpu_count() or 1) + 4)  # of all work that blocks
    heads = [asyncio.create_task(api.head(f"{url}/files/holes")) for _ in range(threads + 2)]
    await asyncio.sleep(0.5)
    assert (await api.get(f"{url}/files")).status_code == 200
    answered = sum(head.done() for head in heads)
    for head in heads:
        assert (await head).headers["content-length"] == str(600 << 20)
    assert answered < threads  # with a thread for each, the first of them come before everything else


async def test_files_that_are_no_plain_content_neither_hold_nor_fill_the_server(api: Api) -> None:
    """A sparse file, one that grows while it is read, a fifo that nobody writes to, and a socket."""
    url = f"{V1}/sessions/{await api.ready_session(purpose='odd files')}"
    made = (
        "truncate -s 256M sparse; mkfifo fifo; ln -s sparse link; "
        "ln -s /proc/self/fd/0 magic; ln -s /dev/zero zero; "
        "python3 -c \"import socket; socket.socket(1).bind('socket')\""
    )
    await api.post(f"{url}/commands", json={"command": made})
    for path in ("fifo", "socket", "magic", "zero"):
        assert (await api.get(f"{url}/files/{path}")).status_code in (400, 403, 404), path
    for path in ("sparse", "link"):
        part = await api.get(f"{url}/files/{path}", headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, bytes(10)), path
    edits = [{"old": "x", "new": "y"}]
    edited = await api.post(f"{url}/edit", json={"path": "sparse", "edits": edits})
    assert 400 <= edited.status_code < 500
    grows = {
        "command": "for i in $(seq 50); do head -c 1000000 /dev/zero; sleep 0.05; done >> grows",
        "shell": "g",
        "yield_s": 0.5,
    }
    started = (await api.post(f"{url}/commands", json=grows)).json()
    async with api.stream("GET", f"{url}/files/grows") as got:
        length = int(got.headers.get("content-length", 0))
        size = 0
        with contextlib.suppress(httpx.RemoteProtocolError):  # it has changed, so it is not sent to its end
            async for piece in got.aiter_raw():
                size += len(piece)
    assert size <= length
    assert (await api.delete(f"{url}/commands/{started['id']}")).status_code < 500
