"""Uncommitted changes cause a warning, and no code of the repository runs outside a jail."""

import os
from pathlib import Path

import pytest

from hutch.app.forges import forges_of
from hutch.app.workspaces import workspaces_of
from hutch.flows.uncommitted_files_warning import describe_uncommitted
from hutch.settings import LoadedSettings, load
from tests.forge.repositories import git, make_repository

pytestmark = pytest.mark.anyio


async def left_out(loaded: LoadedSettings, repository: str) -> str:
    return await describe_uncommitted(workspaces_of(loaded), forges_of(loaded), repository)


async def test_what_is_not_committed_is_named(tmp_path: Path) -> None:
    loaded = load(environ={"HUTCH_HOME": str(tmp_path / "home"), "PATH": os.defpath})
    repo = tmp_path / "repo"
    make_repository(repo, {"a": "1\n", "b": "1\n", ".gitignore": "ignored\n"})
    (repo / "ignored").write_text("x")
    assert await left_out(loaded, str(repo)) == ""
    (repo / "a").write_text("2\n")
    assert await left_out(loaded, str(repo)) == (
        "1 file is changed but not committed, and so not in this run: a. --uncommitted includes it."
    )
    for name in ("c", "d", "e"):
        (repo / name).write_text("new\n")
    result = await left_out(loaded, str(repo))
    assert result.startswith("4 files are changed but not committed, and so not in this run: a, c, d, ….")
    for other in ("https://example.com/a/b", str(tmp_path / "nowhere"), str(tmp_path)):
        assert await left_out(loaded, other) == ""


async def test_programs_of_the_repository_do_not_run_outside(tmp_path: Path) -> None:
    loaded = load(environ={"HUTCH_HOME": str(tmp_path / "home"), "PATH": os.defpath})
    repo, outside = tmp_path / "repo", tmp_path / "escaped"
    make_repository(repo, {"a": "1\n", ".gitattributes": "* filter=evil\n"})
    for setting in ("core.fsmonitor", "filter.evil.clean", "core.sshCommand"):
        git(repo, "config", setting, f"touch {outside}; cat")
    (repo / "a").write_text("2\n")
    await left_out(loaded, str(repo))
    assert not outside.exists()
