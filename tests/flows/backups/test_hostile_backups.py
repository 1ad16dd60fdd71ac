"""Backups that somebody made to write elsewhere, or to put links where Hutch follows them.

Each attack is a whole backup whose lists and manifest fit, so only the attack itself can be refused.
"""

import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.flows.backups.backup_format import About
from hutch.flows.backups.restoration import verify_backup
from hutch.flows.backups.tar_entries import BadBackup, Entry, TarReader

from .installations import TREE, backed_up, entries_of, forged, installation, restored, silent

TREE_BYTES = b"data/" + TREE.encode()
Attack = list[tuple[Entry, bytes]]


def file(path: bytes, content: bytes = b"owned") -> tuple[Entry, bytes]:
    return Entry(path=path, kind="file", size=len(content), mode=0o644), content


def link(path: bytes, target: bytes) -> tuple[Entry, bytes]:
    return Entry(path=path, kind="link", target=target), b""


def hard_link(path: bytes, target: bytes) -> tuple[Entry, bytes]:
    return Entry(path=path, kind="hard link", target=target), b""


def directory(path: bytes) -> tuple[Entry, bytes]:
    return Entry(path=path, kind="directory", mode=0o755), b""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    source, _ = installation(place / "from", 1)
    backed_up(source, place / "backup")
    return place / "backup"


@pytest.fixture
def backup(whole: Path, tmp_path: Path) -> Path:
    (tmp_path / "backup").hardlink_to(whole)
    return tmp_path / "backup"


# Attacks that write to `outside`, two directories above the data, if a plain program unpacks them.
ESCAPES: dict[str, Attack] = {
    "dots": [file(b"data/../../outside/file")],
    "dots from the start": [file(b"../outside/file")],
    "through a link in a tree": [
        link(TREE_BYTES + b"/way", b"../../../../../outside"),
        file(TREE_BYTES + b"/way/file"),
    ],
    "through a link in place of a file": [
        link(TREE_BYTES + b"/way", b"../../../../../outside/file"),
        file(TREE_BYTES + b"/way"),
    ],
    "through a directory that is a link": [link(b"data/way", b"../../outside"), file(b"data/way/file")],
}


@pytest.mark.parametrize("name", ESCAPES)
def test_no_entry_leaves_the_directory(tmp_path: Path, backup: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    bad = forged(backup, ESCAPES[name])
    # The attack works: a program without these checks writes outside.
    with tarfile.open(bad) as archive:
        archive.extraction_filter = staticmethod(lambda member, _: member)
        archive.extractall(tmp_path / "naive")
    assert (tmp_path / "outside/file").read_bytes() == b"owned"
    (tmp_path / "outside/file").unlink()
    with pytest.raises(BadBackup):
        restored(bad, tmp_path / "to")
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param([file(b"/etc/hutch-was-here")], id="an absolute path"),
        pytest.param([file(b"etc/passwd")], id="another directory"),
        pytest.param([file(b"data/./file")], id="a dot"),
        pytest.param([file(b"data//file")], id="an empty name"),
        pytest.param([file(b"config/" + b"n" * 300)], id="a long name"),
        pytest.param([link(b"data/workspaces/session-2", b"/")], id="a workspace that is a link"),
        pytest.param(
            [directory(b"data/workspaces/session-2"), link(b"data/workspaces/session-2/tree", b"/etc")],
            id="a tree that is a link",
        ),
        pytest.param([link(b"data/blobs/aa", b"/")], id="blobs that are a link"),
        pytest.param([link(b"config/personas", b"/root")], id="settings that are a link"),
        pytest.param(
            [hard_link(TREE_BYTES + b"/key", b"data/keys/signing.pem")], id="a key that a jail can read"
        ),
        pytest.param(
            [hard_link(b"data/keys/other", TREE_BYTES + b"/file")], id="a key that a jail can write"
        ),
        pytest.param([hard_link(TREE_BYTES + b"/x", b"/etc/passwd")], id="a hard link to the host"),
        pytest.param(
            [hard_link(TREE_BYTES + b"/x", TREE_BYTES + b"/../../../../../../etc/passwd")],
            id="a hard link with dots",
        ),
        pytest.param(
            [link(TREE_BYTES + b"/way", b"/etc"), hard_link(TREE_BYTES + b"/x", TREE_BYTES + b"/way/passwd")],
            id="a hard link through a link",
        ),
        pytest.param(
            [link(TREE_BYTES + b"/way", b"/etc/passwd"), hard_link(TREE_BYTES + b"/x", TREE_BYTES + b"/way")],
            id="a hard link to a link",
        ),
        pytest.param([(Entry(path=b"data/keys/pipe", kind="pipe"), b"")], id="a pipe for a key"),
        pytest.param([(Entry(path=b"data/gone", kind="whiteout"), b"")], id="a device outside"),
        pytest.param([file(TREE_BYTES + b"/a"), file(TREE_BYTES + b"/a")], id="a file twice"),
        pytest.param([file(b"data/vault.json")], id="a vault twice"),
        pytest.param([file(TREE_BYTES + b"/a"), file(TREE_BYTES + b"/a/b")], id="a file as a directory"),
        pytest.param([file(b"data/nowhere/a")], id="a file in no directory"),
        pytest.param([file(b"data/blobs/aa/" + b"a" * 64)], id="a blob with another name"),
        pytest.param(
            [(Entry(path=TREE_BYTES + b"/a", kind="file", attributes={"security.capability": b"x"}), b"")],
            id="a file with capabilities",
        ),
        pytest.param(
            [(Entry(path=TREE_BYTES + b"/a", kind="file", parts=((0, 4),), real_size=2, size=4), b"data")],
            id="a sparse file beyond its end",
        ),
        pytest.param(
            [
                (
                    Entry(path=TREE_BYTES + b"/a", kind="file", parts=((8, 2), (0, 2)), real_size=9, size=4),
                    b"data",
                )
            ],
            id="a sparse file in disorder",
        ),
    ],
)
def test_entries_in_wrong_places_are_refused(tmp_path: Path, backup: Path, attack: Attack) -> None:
    with pytest.raises(BadBackup):
        restored(forged(backup, attack), tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_set_id_bits_are_dropped(tmp_path: Path, backup: Path) -> None:
    entry = Entry(path=TREE_BYTES + b"/sh", kind="file", size=1, mode=0o6755)
    restored(forged(backup, [(entry, b"x")]), tmp_path / "to")
    assert (tmp_path / "to/data" / TREE / "sh").stat().st_mode & 0o7777 == 0o755


def test_marks_of_another_kind_of_user_mean_nothing(tmp_path: Path, backup: Path) -> None:
    """A jail below a root Hutch may set the marks that an ordinary user's overlay obeys, and the reverse."""
    own, other = ("trusted", "user") if os.geteuid() == 0 else ("user", "trusted")
    marked = Entry(
        path=TREE_BYTES + b"/marked",
        kind="directory",
        mode=0o755,
        attributes={f"{own}.overlay.opaque": b"n", f"{other}.overlay.opaque": b"y", "user.mine": b"1"},
    )
    about = replace(About.parse(entries_of(backup)[0][1]), uid=1000 if os.geteuid() == 0 else 0)
    bad = forged(backup, [(marked, b"")], about=about)
    restored(bad, tmp_path / "to")
    there = tmp_path / "to/data" / TREE / "marked"
    overlay = {name: os.getxattr(there, name) for name in os.listxattr(there) if "overlay" in name}
    assert overlay == {f"{own}.overlay.opaque": b"y"}
    assert os.getxattr(there, "user.mine") == b"1"


def test_links_stay_links_inside_a_tree(tmp_path: Path, backup: Path) -> None:
    restored(forged(backup, [link(TREE_BYTES + b"/passwd", b"/etc/passwd")]), tmp_path / "to")
    assert (tmp_path / "to/data" / TREE / "passwd").readlink() == Path("/etc/passwd")


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\0" * 512, id="empty"),
        pytest.param(os.urandom(512), id="noise"),
        pytest.param(b"PK\x03\x04" + bytes(508), id="a zip"),
        pytest.param(b"\x1f\x8b" + bytes(510), id="broken gzip"),
        pytest.param(b"x", id="a byte"),
    ],
)
def test_other_files_are_not_backups(tmp_path: Path, block: bytes) -> None:
    (tmp_path / "file").write_bytes(block)
    with pytest.raises(BadBackup):
        verify_backup(tmp_path / "file", silent)


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        (tarfile.XHDTYPE, 1 << 33),
        (tarfile.XGLTYPE, 10),
        (tarfile.GNUTYPE_LONGNAME, 1 << 33),
        (tarfile.GNUTYPE_SPARSE, 10),
        (tarfile.BLKTYPE, 0),
        (tarfile.CONTTYPE, 0),
    ],
)
def test_other_kinds_of_entries_are_refused_without_reading_them(type_: bytes, size: int) -> None:
    info = tarfile.TarInfo("data/x")
    info.type, info.size = type_, size
    left = [info.tobuf(tarfile.GNU_FORMAT)]

    def read(count: int) -> bytes:
        assert left, "the reader asks for the content"
        block, left[:] = left[0][:count], []
        return block

    with pytest.raises(BadBackup):
        TarReader(read).next()


def test_a_device_is_refused() -> None:
    info = tarfile.TarInfo("data/workspaces/x/tree/disk")
    info.type, info.devmajor, info.devminor = tarfile.CHRTYPE, 1, 1
    stream = [info.tobuf(tarfile.GNU_FORMAT)]
    with pytest.raises(BadBackup, match="type"):
        TarReader(lambda count: stream.pop()[:count]).next()
