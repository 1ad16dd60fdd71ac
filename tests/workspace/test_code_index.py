"""The index of a workspace's code: shared by a base, bounded, and never in the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.store.code_index_database import CodeIndexTables
from hutch.workspace.code_search import code_index
from hutch.workspace.code_search.code_index import open_current_index, remove_index
from hutch.workspace.code_search.ranked_matches import CodeQuery
from hutch.workspace.code_search.workspace_code_search import search_code
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import Workspace
from tests.workspace.preparation_fixtures import COPY, HOST, make_home, make_project

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def workspace_of(home: Home, id: str, source: Path) -> AsyncIterator[Workspace]:
    await prepare(home, id, source, git=HOST, options=COPY)
    async with open_mounted(home, await open_workspace(home, id), home.workspace(id), HOST) as workspace:
        yield workspace


async def found(workspace: Workspace, text: str) -> list[str]:
    return [match.path for match in (await search_code(workspace, CodeQuery(text=text))).matches]


async def test_workspaces_of_a_base_share_its_index(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as one:
        assert await found(one, "hello") == ["src/main.py"]
        (shared,) = home.bases.glob(f"*/{code_index.FILE}")
        content = shared.read_bytes()
        one.files.write("src/main.py", b"print('zebra')\n")
        one.files.write("secret.py", b"zebra = 1\n")
        assert set(await found(one, "zebra")) == {"src/main.py", "secret.py"}
    assert shared.read_bytes() == content  # what a session writes reaches no other
    # A mark in the shared index shows that the second workspace starts from it.
    tables = CodeIndexTables(shared)
    known = tables.counts()
    number = tables.find_document(tables.files()[b"src/main.py"], "Python")
    assert number is not None
    tables.set_file(b"src/main.py", "zzmark", number)
    tables.close()
    async with workspace_of(home, "two", source) as two:
        assert await found(two, "zzmark") == ["src/main.py"]
        assert await found(two, "zebra") == []
        own = CodeIndexTables(two.directory / code_index.FILE)
        assert own.counts() == known
        own.close()


async def test_an_update_that_takes_too_long_continues_with_the_next_search(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        tree = bytes.fromhex((await workspace.snapshot("now")).tree)
        directory = workspace.directory
        with open_current_index(directory, workspace.snapshots, tree, timeout_s=-1) as (tables, state):
            assert (state.missing, tables.tree) == (5, "")
        with open_current_index(directory, workspace.snapshots, tree) as (tables, state):
            assert (state.files, state.missing, tables.tree) == (5, 0, tree.hex())


async def test_a_workspace_begins_with_the_part_of_a_bases_index_that_is_done(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as one:
        assert await found(one, "hello") == ["src/main.py"]
    (shared,) = home.bases.glob(f"*/{code_index.FILE}")
    part = shared.rename(shared.with_name(f"{shared.name}.building"))  # as after a search that took too long
    tables = CodeIndexTables(part)
    tables.remove_files([b"src/main.py"])
    tables.tree = ""
    tables.close()
    async with workspace_of(home, "two", source) as two:
        tree = bytes.fromhex((await two.snapshot("now")).tree)
        with open_current_index(two.directory, two.snapshots, tree, timeout_s=-1) as (tables, state):
            assert (state.files, state.missing) == (5, 1)
        assert await found(two, "hello") == ["src/main.py"]


async def test_an_index_of_another_version_is_built_again(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        assert await found(workspace, "hello") == ["src/main.py"]
        path = workspace.directory / code_index.FILE
        remove_index(path)
        tables = CodeIndexTables(path)
        tables.set_version("0")
        tables.close()
        assert await found(workspace, "hello") == ["src/main.py"]


async def test_large_and_binary_files_are_found_by_their_path_only(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        workspace.files.write("huge.py", b"zebra = 1\n" * 60_000)
        assert await found(workspace, "zebra") == []
        assert (await found(workspace, "huge"))[0] == "huge.py"
        assert (await found(workspace, "large"))[0] == "data/large.bin"
