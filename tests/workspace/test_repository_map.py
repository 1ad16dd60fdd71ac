"""The map of a repository: what is in it, that it is bounded, and that it is computed once for a tree."""

from pathlib import Path

import pytest

from hutch.store.code_index_database import CodeIndexTables
from hutch.workspace.code_search.code_index import FILE
from hutch.workspace.code_search.ranked_matches import CodeQuery
from hutch.workspace.code_search.repository_map import MIN_FILES
from hutch.workspace.code_search.workspace_code_search import map_repository
from hutch.workspace.workspace import Workspace
from tests.workspace.preparation_fixtures import make_home, make_project
from tests.workspace.test_code_index import workspace_of

pytestmark = pytest.mark.anyio


def write_modules(workspace: Workspace, count: int) -> None:
    """Modules that all use one, and define what nothing uses."""
    workspace.files.write("core/engine.py", b"def start_engine():\n    pass\n\n\ndef unused():\n    pass\n")
    for number in range(count):
        text = f"from core.engine import start_engine\n\n\ndef part_{number}():\n    start_engine()\n"
        workspace.files.write(f"parts/part_{number:03}.py", text.encode())


async def test_the_most_used_files_and_the_matches_of_the_task_are_shown(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        write_modules(workspace, MIN_FILES + 10)
        query = CodeQuery(text="mend part_007", limit=5)
        text = await map_repository(workspace, query, 2_000)
        lines = text.splitlines()
        assert lines[:2] == ["Files with words of the task:", "parts/part_007.py:4 function part_7"]
        assert "core/engine.py: start_engine" in lines and len(text) <= 2_000
        small = await map_repository(workspace, query, 200)
        assert 0 < len(small) <= 200
        no_core = CodeQuery(text="mend part_007", is_hidden=lambda path: path != "parts/part_008.py")
        assert "part_007" not in await map_repository(workspace, no_core, 2_000)
        assert "engine" not in await map_repository(workspace, no_core, 2_000)
        assert "core/engine.py" in await map_repository(workspace, CodeQuery(text="? !"), 2_000)


async def test_a_small_repository_has_no_map(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        write_modules(workspace, MIN_FILES - 5)
        assert await map_repository(workspace, CodeQuery(text="part"), 2_000) == ""


async def test_an_index_that_takes_too_long_gives_no_map_and_goes_on(tmp_path: Path) -> None:
    home, source = make_home(tmp_path), tmp_path / "source"
    make_project(source)
    async with workspace_of(home, "one", source) as workspace:
        write_modules(workspace, MIN_FILES)
        assert await map_repository(workspace, CodeQuery(text="part"), 2_000, timeout_s=-1) == ""
        assert "core/engine.py" in await map_repository(workspace, CodeQuery(text="part"), 2_000)
        tables = CodeIndexTables(workspace.directory / FILE)
        tables.map = '[["marked.py", ["Mark"]]]'
        tables.close()
        assert "marked.py: Mark" in await map_repository(workspace, CodeQuery(text="part"), 2_000)  # stored
        workspace.files.write("other.py", b"start_engine()\n")
        assert "marked.py" not in await map_repository(workspace, CodeQuery(text="part"), 2_000)
