"""Where paths lead when there are links on the way."""

from pathlib import Path

import pytest

from hutch.domain.errors import Denied
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.link_resolution import resolve_links


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    (tmp_path / "secrets" / "key.txt").write_text("key")
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("secrets")
    (tmp_path / "src" / "up").symlink_to("../link/deep")
    (tmp_path / "key").symlink_to("./link/key.txt")
    (tmp_path / "jail").symlink_to("/workspace/secrets")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "above").symlink_to("../..")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "really"),
    [
        ("src/a.py", "src/a.py"),
        ("link/key.txt", "secrets/key.txt"),
        ("link/new/file", "secrets/new/file"),
        ("key", "secrets/key.txt"),
        ("src/up/../key.txt", "secrets/key.txt"),
        ("src/up/./x", "secrets/deep/x"),
        ("jail/key.txt", "secrets/key.txt"),
        ("secrets/key.txt/below", "secrets/key.txt/below"),
        ("", ""),
        (".//src/", "src"),
    ],
)
def test_links_are_followed_as_far_as_there_is_something(tree: Path, path: str, really: str) -> None:
    with Directory.at(tree) as directory:
        assert resolve_links(directory, path, ["/workspace"]) == really


@pytest.mark.parametrize("path", ["out/passwd", "above/x", "a/x", "../x"])
def test_links_that_lead_out_or_nowhere_are_refused(tree: Path, path: str) -> None:
    with Directory.at(tree) as directory, pytest.raises(Denied):
        resolve_links(directory, path, ["/workspace"])
