"""The entries of a directory, a page at a time."""

import os
import shutil
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.directory_listing import MAX_ENTRIES, MAX_OPEN_LEVELS, Entry, Page, Walk, list_page
from tests.hypothesis_examples import examples


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "tree").mkdir()
    with Directory.at(tmp_path / "tree") as directory:
        yield directory


@pytest.fixture
def place(tmp_path: Path, tree: Directory) -> Path:
    return tmp_path / "tree"


def pages(tree: Directory, path: str = "", *, limit: int, **how: bool) -> list[Page]:
    found = [list_page(tree, path, limit=limit, **how)]
    while found[-1].cursor is not None:
        found.append(list_page(tree, path, limit=limit, cursor=found[-1].cursor, **how))
    return found


def paths(tree: Directory, path: str = "", *, limit: int = 1000, **how: bool) -> list[str]:
    return [entry.path for page in pages(tree, path, limit=limit, **how) for entry in page.entries]


def test_every_kind_is_listed_with_all_its_fields(tree: Directory, place: Path) -> None:
    (place / "directory").mkdir(mode=0o750)
    (place / "file").write_bytes(b"12345")
    (place / "file").chmod(0o640)
    (place / "link").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe", 0o600)
    for name in ("directory", "file", "link", "pipe"):
        os.utime(place / name, ns=(1, 1_700_000_000_123_456_789), follow_symlinks=False)
    size = (place / "directory").stat().st_size
    when = 1_700_000_000_123_456_789
    assert list_page(tree) == Page(
        [
            Entry("directory", "directory", size, 0o750, when, None),
            Entry("file", "file", 5, 0o640, when, None),
            Entry("link", "link", 11, 0o777, when, "/etc/passwd"),
            Entry("pipe", "other", 0, 0o600, when, None),
        ],
        None,
    )


def test_a_walk_goes_down_right_after_naming_a_directory(tree: Directory, place: Path) -> None:
    for name in ("b/z", "b/a/x", "b-/y", "a", "c"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    assert paths(tree, recursive=True) == ["a", "b", "b/a", "b/a/x", "b/z", "b-", "b-/y", "c"]
    assert paths(tree, "b", recursive=True) == ["b/a", "b/a/x", "b/z"]
    assert paths(tree, "b") == ["b/a", "b/z"]


def test_links_are_listed_and_never_followed(tree: Directory, place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    (place / "out").symlink_to(tmp_path / "outside")
    (place / "round").symlink_to(".")
    assert paths(tree, recursive=True) == ["out", "round"]
    with pytest.raises(Denied):
        list_page(tree, "out")


def test_what_is_no_directory_cannot_be_listed(tree: Directory, place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(BadRequest):
        list_page(tree, "file")
    with pytest.raises(NotFound):
        list_page(tree, "missing")
    with pytest.raises(BadRequest, match="no cursor"):
        list_page(tree, cursor="é%")
    with pytest.raises(BadRequest, match="10,001"):
        list_page(tree, limit=MAX_ENTRIES + 1)


def test_names_that_are_no_text(tree: Directory, place: Path) -> None:
    names = [b"\xff\xfe", b"line\nbreak", b"\xe9t\xe9", "été".encode(), b"a'\"\\"]
    for name in names:
        (place / os.fsdecode(name)).touch()
    assert {os.fsencode(path) for path in paths(tree, limit=1)} == set(names)


trees = st.lists(
    st.lists(st.sampled_from(["a", "b", "a.b", "a-", "é", "z"]), min_size=1, max_size=4).map("/".join),
    max_size=12,
)


@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trees, st.integers(1, 7), st.booleans())
def test_pages_together_are_the_whole(
    tree: Directory, place: Path, files: list[str], limit: int, recursive: bool
) -> None:
    fill(place, files)
    whole = list_page(tree, recursive=recursive).entries
    found = pages(tree, limit=limit, recursive=recursive)
    assert [entry for page in found for entry in page.entries] == whole
    assert all(len(page.entries) == limit for page in found[:-1])
    seen = {str(path.relative_to(place)) for path in (place.rglob("*") if recursive else place.iterdir())}
    assert {entry.path for entry in whole} == seen
    assert [entry.path.split("/") for entry in whole] == sorted(entry.path.split("/") for entry in whole)


@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trees, trees, st.integers(1, 4), st.integers(0, 20))
def test_entries_that_stay_are_listed_once(
    tree: Directory, place: Path, before: list[str], after: list[str], limit: int, when: int
) -> None:
    """Some files go and others come between two pages."""
    fill(place, before)
    first = set(paths(tree, recursive=True))
    result: list[str] = []
    page = list_page(tree, recursive=True, limit=limit)
    for number in range(1000):
        result += [entry.path for entry in page.entries]
        if number == when:
            fill(place, after)
        if page.cursor is None:
            break
        page = list_page(tree, recursive=True, limit=limit, cursor=page.cursor)
    stayed = first & set(paths(tree, recursive=True)) if number >= when else first
    assert len(result) == len(set(result))
    assert stayed <= set(result)


def fill(place: Path, files: list[str]) -> None:
    """Make the directory hold these files, as far as names allow."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in files:
        parents = [place / above for above in Path(name).parents][:-1]
        if not (place / name).exists() and not any(path.is_file() for path in parents):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).touch()


def test_ignores_leave_out_what_git_would(tree: Directory, place: Path) -> None:
    (place / ".gitignore").write_text("*.log\n/build/\n")
    (place / "src/sub").mkdir(parents=True)
    (place / "src/.gitignore").write_text("!keep.log\nsub/x\n")
    for name in ("a.log", "src/keep.log", "src/b.log", "src/sub/x", "src/sub/y", ".git/config", "build/out"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    kept = [".gitignore", "src", "src/.gitignore", "src/keep.log", "src/sub", "src/sub/y"]
    for limit in (1, 2, 1000):
        assert paths(tree, recursive=True, ignores=True, limit=limit) == kept
    assert paths(tree, "src", recursive=True, ignores=True) == kept[2:]
    assert paths(tree, "src/sub", ignores=True) == ["src/sub/y"]
    assert ".git/config" in paths(tree, recursive=True)


def test_a_gitignore_that_is_no_file_is_none(tree: Directory, place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("*\n")
    (place / "linked").mkdir()
    (place / "linked/.gitignore").symlink_to(tmp_path / "outside")
    (place / "piped").mkdir()
    os.mkfifo(place / "piped/.gitignore")
    (place / "bound").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place / "bound/.gitignore"))
        assert len(paths(tree, recursive=True, ignores=True)) == 6


def test_depth_costs_no_descriptors(tree: Directory, place: Path) -> None:
    deep = 3000
    fd = os.open(place, os.O_RDONLY)
    for _ in range(deep):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("file", os.O_CREAT, dir_fd=fd))
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = paths(tree, recursive=True, limit=2500)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # fewer, when another test has left something
    assert len(found) == 2 * deep
    assert found[:2] == ["d", "d/d"]
    assert found[-2:] == ["d/file", "file"]
    tree.remove("d")


def test_a_directory_that_is_moved_under_the_walk_does_not_lead_it_astray(
    tree: Directory, place: Path
) -> None:
    """Deeper than is held open, a walk comes back by `..`, which may lead elsewhere by then."""
    chain = Path(*["d"] * (MAX_OPEN_LEVELS + 20))
    (place / chain).mkdir(parents=True)
    for above in chain.parents:
        (place / above / "z").touch()
    (place / "aside").mkdir()
    found = []
    for entry in Walk(tree, "").entries():
        found.append(entry.path)
        if entry.path == str(chain):
            moved = Path(*["d"] * (MAX_OPEN_LEVELS + 10))
            (place / moved).rename(place / "aside/d")
    assert len(found) == len(set(found))
    assert "aside" in found
    # Entries above the moved directory are all listed nevertheless.
    assert {str(above / "z") for above in chain.parents if len(above.parts) < MAX_OPEN_LEVELS + 10} <= set(
        found
    )


def test_listing_while_others_make_and_remove(tree: Directory, place: Path) -> None:
    for number in range(200):
        (place / f"stays{number}").touch()
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            (place / "new/below").mkdir(parents=True)
            (place / "new/below/file").touch()
            shutil.rmtree(place / "new")

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(50):
            found = paths(tree, recursive=True, limit=17)
            assert {path for path in found if path.startswith("stays")} == {
                f"stays{number}" for number in range(200)
            }
    finally:
        stop.set()
        other.join()


@pytest.mark.parametrize("many", [30_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_very_many_entries(tree: Directory, place: Path, many: int) -> None:
    fd = os.open(place, os.O_RDONLY)
    for number in range(many):
        os.mknod(f"{number:06}", dir_fd=fd)
    os.close(fd)
    page, count, most = list_page(tree, limit=MAX_ENTRIES), 0, 0
    while True:
        names = [entry.path for entry in page.entries]
        assert names == [f"{number:06}" for number in range(count, count + len(names))]
        count += len(names)
        if page.cursor is None:
            break
        page = list_page(tree, limit=MAX_ENTRIES, cursor=page.cursor)
    assert count == many
    tracemalloc.start()
    list_page(tree, limit=100)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000  # a page, not the directory: its names alone take more
