"""Uncommitted changes are copied, and nothing else is."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.lifecycle.uncommitted_changes import copy_changes
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.forge.repositories import commit, git, make_repository
from tests.hypothesis_examples import examples
from tests.workspace.preparation_fixtures import COPY, HOST, OVERLAY, content, make_home


async def brought(home: Home, source: Path, options: Options) -> dict[str, str | bytes]:
    await prepare(home, "w", source, git=HOST, uncommitted=True, options=options)
    opened = await open_workspace(home, "w")
    try:
        return content(Path(f"/proc/self/fd/{opened.directory.fd}"))
    finally:
        opened.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        **{name: f"{name}\n" for name in ("same", "changed", "staged", "deleted", "removed", "both", "mode")},
        **{name: f"{name}\n" for name in ("file-to-dir", "dir-to-file/a", "dir-to-file/b", "only/one")},
        ".gitignore": "*.log\nbuild/\n",
    }
    directory = tmp_path / "project"
    make_repository(directory, files)
    (directory / "link-to-dir").symlink_to("only")
    (directory / "link").symlink_to("same")
    commit(directory, {})
    return directory


@pytest.mark.anyio
@pytest.mark.parametrize("options", [COPY, OVERLAY], ids=["copy", "overlay"])
async def test_every_kind_of_change(project: Path, tmp_path: Path, options: Options) -> None:
    (project / "changed").write_text("changed!\n")
    (project / "staged").write_text("staged!\n")
    git(project, "add", "staged")
    (project / "both").write_text("staged\n")
    git(project, "add", "both")
    (project / "both").write_text("and changed\n")
    (project / "deleted").unlink()
    git(project, "rm", "--quiet", "removed")
    (project / "mode").chmod(0o755)
    (project / "file-to-dir").unlink()
    (project / "file-to-dir").mkdir()
    (project / "file-to-dir/x").write_text("x\n")
    shutil.rmtree(project / "dir-to-file")
    (project / "dir-to-file").write_text("now a file\n")
    (project / "only/one").unlink()
    (project / "link").unlink()
    (project / "link").symlink_to("changed")
    (project / "link-to-dir").unlink()
    (project / "link-to-dir").mkdir()
    (project / "link-to-dir/y").write_text("y\n")
    (project / "new/deep").mkdir(parents=True)
    (project / "new/deep/é\n").write_text("new\n")
    (project / "noise.log").write_text("ignored\n")
    (project / "build").mkdir()
    (project / "build/out").write_text("ignored\n")
    (project / "empty").mkdir()
    make_repository(project / "nested", {"inner": "i\n"})
    os.mkfifo(project / "new/fifo")
    found = await brought(make_home(tmp_path), project, options)
    nested = {name: found.pop(name) for name in list(found) if name.startswith("nested/")}
    assert found == {
        ".gitignore": b"*.log\nbuild/\n",
        "same": b"same\n",
        "changed": b"changed!\n",
        "staged": b"staged!\n",
        "both": b"and changed\n",
        "mode": b"mode\n",
        "file-to-dir/x": b"x\n",
        "dir-to-file": b"now a file\n",
        "link": "changed",
        "link-to-dir/y": b"y\n",
        "new/deep/é\n": b"new\n",
    }
    assert nested["nested/inner"] == b"i\n" and "nested/.git/HEAD" in nested


@pytest.mark.anyio
async def test_modes_come_and_set_id_bits_do_not(project: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    (project / "mode").chmod(0o755)
    (project / "tool").write_text("#!/bin/sh\n")
    (project / "tool").chmod(0o6755)
    await prepare(home, "w", project, git=HOST, uncommitted=True, options=COPY)
    tree = home.workspace("w") / "tree"
    assert [(tree / name).stat().st_mode & 0o7777 for name in ("mode", "tool", "same")] == [
        0o755,
        0o755,
        0o644,
    ]


@pytest.mark.anyio
async def test_without_being_asked_nothing_comes(project: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    (project / "changed").write_text("changed!\n")
    (project / "new").write_text("new\n")
    await prepare(home, "w", project, git=HOST)
    tree = home.workspace("w") / "tree"
    assert (tree / "changed").read_text() == "changed\n" and not (tree / "new").exists()


@pytest.mark.anyio
async def test_a_second_time_there_are_other_changes(project: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    for number in range(2):
        (project / "changed").write_text(f"{number}\n")
        await prepare(home, f"w{number}", project, git=HOST, uncommitted=True, options=OVERLAY)
        opened = await open_workspace(home, f"w{number}")
        fd = opened.directory.open("changed", os.O_RDONLY)
        assert os.read(fd, 10) == f"{number}\n".encode()
        os.close(fd)
        opened.close()


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../secret", "", "a/.."])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret").write_text("s")
    with (
        Directory.at(tmp_path / "source") as source,
        Directory.at(tmp_path / "target") as target,
        pytest.raises(BadRequest, match="no path inside the repository"),
    ):
        copy_changes(source, target, [path], lambda copied: None)
    assert (tmp_path / "secret").read_text() == "s"


def test_links_on_the_way_lead_nowhere(tmp_path: Path) -> None:
    """The list says `a/f`, but by now `a` is a link out: neither is that read, nor written through."""
    for name in ("source", "target", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/f").write_text("secret")
    (tmp_path / "source/a").symlink_to("../outside")
    (tmp_path / "source/b").mkdir()
    (tmp_path / "source/b/f").write_text("mine")
    (tmp_path / "target/b").symlink_to("../outside")
    with Directory.at(tmp_path / "source") as source, Directory.at(tmp_path / "target") as target:
        copy_changes(source, target, ["a/f", "b/f"], lambda copied: None)
    assert content(tmp_path / "target") == {"b/f": b"mine"}
    assert (tmp_path / "outside/f").read_text() == "secret"


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(
    PATHS, st.one_of(st.binary(max_size=4), st.sampled_from(["a", "../b", "/etc"])), max_size=6
)


def grow(directory: Path, tree: dict[str, str | bytes]) -> None:
    directory.mkdir()
    for name, value in tree.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if any(parent.is_symlink() for parent in path.parents if parent != directory.parent):
                continue
            path.symlink_to(value) if isinstance(value, str) else path.write_bytes(value)
        except OSError:
            continue


@given(TREES, TREES)
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_tree_becomes_any_other(
    tmp_path: Path, before: dict[str, str | bytes], after: dict[str, str | bytes]
) -> None:
    for name in ("source", "target"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    grow(tmp_path / "target", before)
    grow(tmp_path / "source", after)
    old, new = content(tmp_path / "target"), content(tmp_path / "source")
    changed = [name for name in {*old, *new} if old.get(name) != new.get(name)]
    with Directory.at(tmp_path / "source") as source, Directory.at(tmp_path / "target") as target:
        copy_changes(source, target, changed, lambda copied: None)
    assert content(tmp_path / "target") == new


@pytest.mark.anyio
@pytest.mark.parametrize("options", [COPY, OVERLAY], ids=["copy", "overlay"])
async def test_what_left_the_index_and_is_still_there(
    project: Path, tmp_path: Path, options: Options
) -> None:
    """git lists it twice: as removed, and as a new file."""
    git(project, "rm", "--quiet", "--cached", "same")
    (project / "same").write_text("kept\n")
    found = await brought(make_home(tmp_path), project, options)
    assert found["same"] == b"kept\n"


@pytest.mark.parametrize("paths", [["f", "f"], ["d/f", "d/f", "d/"]])
def test_a_path_that_is_listed_twice(tmp_path: Path, paths: list[str]) -> None:
    (tmp_path / "source/d").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    for name in ("f", "d/f"):
        (tmp_path / "source" / name).write_text("x")
    with Directory.at(tmp_path / "source") as source, Directory.at(tmp_path / "target") as target:
        copy_changes(source, target, paths, lambda copied: None)
    assert content(tmp_path / "target") == {paths[0]: b"x"}
