"""A tree is copied as it is, but for what must not come along."""

import os
import resource
import threading
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, Unavailable
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.tree_copy import (
    MAX_DEPTH,
    MAX_OPEN_LEVELS,
    REPORT_INTERVAL_FILES,
    CopyResult,
    can_reflink,
    copy_base,
    copy_tree,
)
from tests.workspace.preparation_fixtures import content, fingerprint


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    (top / "a/b").mkdir(parents=True)
    (top / "a/b/file").write_bytes(os.urandom(3_000_000))
    (top / "a/read-only").write_text("r")
    (top / "a/read-only").chmod(0o444)
    (top / "empty").write_bytes(b"")
    (top / "link").symlink_to("/nowhere")
    os.utime(top / "a/b/file", ns=(1_600_000_000_123_456_789, 1_600_000_000_987_654_321))
    return top


def copied(source: Path, target: Path, **words: object) -> CopyResult:
    target.mkdir(exist_ok=True)
    with Directory.at(source) as one, Directory.at(target) as other:
        return copy_tree(one, other, **words)


def test_bytes_modes_times_and_links(source: Path, tmp_path: Path) -> None:
    done = copied(source, tmp_path / "target")
    assert content(tmp_path / "target") == content(source)
    for name in ("a", "a/b", "a/b/file", "a/read-only", "empty"):
        one, other = (source / name).stat(), (tmp_path / "target" / name).stat()
        assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns), name
    assert (done.files, done.bytes, done.skipped) == (6, 3_000_001, [])


def test_holes_stay_holes(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/sparse").open("wb") as file:
        file.truncate(10 << 30)
        file.seek(5 << 30)
        file.write(b"in the middle")
    done = copied(tmp_path / "source", tmp_path / "target")
    made = tmp_path / "target/sparse"
    assert made.stat().st_size == 10 << 30 and made.stat().st_blocks * 512 < 1 << 20
    assert done.bytes < 1 << 20 or can_reflink(tmp_path)
    with made.open("rb") as file:
        file.seek(5 << 30)
        assert file.read(13) == b"in the middle"


def test_a_link_that_is_swapped_in_is_not_followed(tmp_path: Path) -> None:
    """While a directory is copied, it becomes a link to a secret and back, thousands of times."""
    source, outside = tmp_path / "source", tmp_path / "outside"
    for name in ("flip", "other"):
        (source / name).mkdir(parents=True)
        (source / name / "file").write_text("mine")
    outside.mkdir()
    (outside / "file").write_text("secret")
    (tmp_path / "lure").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (source / "flip").rename(tmp_path / "aside")
            (tmp_path / "lure").rename(source / "flip")
            (source / "flip").rename(tmp_path / "lure")
            (tmp_path / "aside").rename(source / "flip")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(400):
            target = tmp_path / f"target-{number}"
            try:
                copied(source, target)
            except Exception as error:  # noqa: BLE001 - whatever the error, nothing may leak
                assert type(error).__module__ == "hutch.domain.errors"
            found = {path.read_text() for path in target.rglob("file") if not path.parent.is_symlink()}
            assert found <= {"mine"}
    finally:
        stop.set()
        thread.join()


def test_what_is_too_deep_is_refused(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_PATH)
    os.mkdir("source", dir_fd=here)
    here = os.open("source", os.O_PATH, dir_fd=here)
    for _ in range(MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=here)
        here = os.open("d", os.O_PATH, dir_fd=here)
    with pytest.raises(BadRequest, match=f"deeper than {MAX_DEPTH} directories"):
        copied(tmp_path / "source", tmp_path / "target")
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if "/source/" in str(_target(fd)):
            os.close(fd)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "source/a").mkdir(parents=True)
    (tmp_path / "source/a/locked").write_text("x")
    (tmp_path / "source/a/locked").chmod(0)
    with pytest.raises(Denied, match="a/locked"):
        copied(tmp_path / "source", tmp_path / "target")


def test_a_progress_callback_may_stop_the_copy(source: Path, tmp_path: Path) -> None:
    for number in range(500):
        (source / f"f{number}").write_text("")

    def enough(copied: CopyResult) -> None:
        raise Unavailable("Stopped.")

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(Unavailable, match="Stopped"):
        copied(source, tmp_path / "target", on_copied=enough)
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert len(list((tmp_path / "target").rglob("*"))) < 400


@pytest.mark.anyio
async def test_a_base_is_copied_without_attributes_and_left_as_it_was(source: Path, tmp_path: Path) -> None:
    os.setxattr(source / "a", "user.overlay.opaque", b"y")
    before = fingerprint(source)
    await copy_base(source, tmp_path / "target")
    assert content(tmp_path / "target") == content(source)
    assert os.listxattr(tmp_path / "target/a") == []
    assert (tmp_path / "target/a/b/file").stat().st_mtime_ns == (source / "a/b/file").stat().st_mtime_ns
    assert fingerprint(source) == before


@pytest.mark.anyio
async def test_a_copy_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"could not be copied: .*No such file"):
        await copy_base(tmp_path / "gone", tmp_path / "target")


def _target(fd: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return ""


def test_deep_directories_need_few_descriptors(tmp_path: Path) -> None:
    """As deep as is allowed, with a file on either side of the way down, and 150 descriptors in all."""
    deep = Path(*["d"] * MAX_DEPTH)
    (tmp_path / "source" / deep).mkdir(parents=True)
    for depth in range(MAX_DEPTH + 1):
        for name in ("a", "z"):
            tmp_path.joinpath("source", *["d"] * depth, name).write_text(str(depth))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 100, hard))
    try:
        done = copied(tmp_path / "source", tmp_path / "target")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.files == MAX_DEPTH + 2 * (MAX_DEPTH + 1)
    for depth in (0, 1, 100, MAX_DEPTH):
        for name in ("a", "z"):
            assert tmp_path.joinpath("target", *["d"] * depth, name).read_text() == str(depth)


def test_a_directory_that_is_moved_out_while_it_is_copied(tmp_path: Path) -> None:
    """Its new parents are outside of the source, and are not read."""
    for top in ("source", "secrets"):
        (tmp_path / top / Path(*["d"] * (2 * MAX_OPEN_LEVELS))).mkdir(parents=True)
    (tmp_path / "secrets/d/secret").write_text("s")
    bottom = tmp_path.joinpath("source", *["d"] * (2 * MAX_OPEN_LEVELS))
    for number in range(REPORT_INTERVAL_FILES):
        (bottom / str(number)).write_text("")
    moved = []

    def report(so_far: CopyResult) -> None:
        if not moved:
            moved.append((tmp_path / "source/d/d/d").rename(tmp_path / "secrets/d/moved"))

    with pytest.raises(Conflict, match="was moved while it was copied"):
        copied(tmp_path / "source", tmp_path / "target", on_copied=report)
    assert not any(path.name == "secret" for path in (tmp_path / "target").rglob("*"))
