"""Secrets in the work of a run: found before anything leaves the installation."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from hutch.domain.redaction import Redactor
from hutch.flows.delivery.secret_search import (
    WINDOW_BYTES,
    FoundSecret,
    SecretSearch,
    describe_secrets,
    search_work,
)
from hutch.snapshots.git_storage import Snapshot
from hutch.workspace.workspace import Workspace
from tests.flows.delivery_fixtures import Delivering, bare, push

pytestmark = pytest.mark.anyio

VALUE = "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"
TOKEN = "ghp_" + "a1B2" * 9
REDACTOR = Redactor([VALUE])


@pytest.fixture
async def workspace(hutch: Delivering, place: Path) -> AsyncIterator[Workspace]:
    origin = bare(place)
    push(place, origin, {"tests/sample.py": f"TOKEN = '{TOKEN}'\n"})
    async with hutch.workspace(str(origin)) as opened:
        yield opened


async def state(workspace: Workspace, files: Mapping[str, bytes]) -> Snapshot:
    for path, data in files.items():
        await workspace.write(path, data)
    return await workspace.snapshot("state")


async def search(workspace: Workspace, start: Snapshot, last: Snapshot, **more: bool) -> SecretSearch:
    return await search_work(workspace, REDACTOR, delivered=["0" * 40], start=start, last=last, **more)


async def test_stored_values_and_shapes_are_found_by_file(workspace: Workspace) -> None:
    start = await state(workspace, {})
    last = await state(
        workspace,
        {
            "plain.txt": b"nothing\n",
            "config.py": f"KEY = {VALUE!r}\n".encode(),
            "data.bin": os.urandom(WINDOW_BYTES - 10).replace(b"\n", b" ") + VALUE.encode() + b"\0end",
            "notes.md": f"Use {TOKEN[:-4]}C3d4.\n".encode(),
            f"{TOKEN}.txt": b"x\n",
        },
    )
    found = await search(workspace, start, last)
    assert found == SecretSearch(
        [
            FoundSecret("config.py", "secret"),
            FoundSecret("data.bin", "secret"),
            FoundSecret("[redacted:github_token].txt", "github_token"),
            FoundSecret("notes.md", "github_token"),
        ]
    )
    assert "'config.py', 'data.bin' contain the value of a stored secret" in describe_secrets(found.refused)
    confirmed = await search(workspace, start, last, only_stored=True)
    assert confirmed == SecretSearch(found.refused[:2])
    assert "'notes.md' contains what looks like a credential (github_token)" in describe_secrets(
        found.refused[2:]
    )


async def test_a_text_that_the_file_had_before_does_not_count(workspace: Workspace) -> None:
    start = await state(workspace, {})
    last = await state(workspace, {"tests/sample.py": f"# A sample.\nTOKEN = '{TOKEN}'\n".encode()})
    assert await search(workspace, start, last) == SecretSearch([])


async def test_uncommitted_work_with_a_secret_becomes_no_commit(workspace: Workspace) -> None:
    start = await state(workspace, {"config.py": f"KEY = {VALUE!r}\n".encode()})
    last = await state(workspace, {"config.py": b"KEY = os.environ['KEY']\n"})
    assert await search(workspace, start, last) == SecretSearch([], start_has_secrets=True)
