"""A hostile zip is refused, and costs little."""

import io
import os
import struct
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.exported_record_verifier import Report, verify_record
from hutch.store.record_format import FILES, InvalidRecord
from hutch.store.record_zip_reader import BLOCK_BYTES, ZipMember, directory, header, open_archive

from .handmade_records import deflated, laid_out, pack, sealed, unpack

MIB = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return sealed().write(tmp_path / "record.zip")


def _refused(report: Report, words: str) -> bool:
    return not report.ok and words in (report.problem or "")


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"record\.zip' does not exist\. Give the path of an exported record"):
        verify_record(tmp_path / "record.zip")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x7fELF" * 99, b"{}"])
def test_file_that_is_no_zip_is_a_bad_request(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(BadRequest, match="is not a zip file"):
        verify_record(path)


def test_what_is_no_file_is_a_bad_request(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BadRequest, match="is not a file"):
            verify_record(path)


@pytest.mark.parametrize("name", ["re\x1b[2Jcord.zip", "re\x9b2J\u202e\ncord.zip", "re\0cord.zip"])
def test_name_of_a_file_cannot_steer_the_terminal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises((NotFound, BadRequest)) as missing:
        verify_record(path)
    assert str(missing.value).isprintable()
    if "\0" not in name:
        path.write_bytes(b"no zip")
        with pytest.raises(BadRequest) as no_zip:
            verify_record(path)
        assert str(no_zip.value).isprintable()


def test_zip_is_laid_out_as_zip_libraries_do(path: Path) -> None:
    """Newer ones, to the byte; and older ones read it."""
    raw, target = path.read_bytes(), io.BytesIO()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [info.filename for info in archive.infolist()] == list(FILES)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in unpack(path).items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system, info.external_attr = 3, 0o100644 << 16
            with archive.open(info, "w", force_zip64=True) as entry:
                entry.write(content)
    if sys.version_info >= (3, 11, 4):
        assert target.getvalue() == raw


@pytest.mark.parametrize("gibibytes", [1, 2, 3, 4, 5])
def test_record_of_many_gigabytes_is_found_whole(tmp_path: Path, gibibytes: int) -> None:
    """Large sizes and places stand in fields of their own. The file has holes in place of data."""
    path, files, place = tmp_path / "large.zip", [], 0
    with path.open("wb") as target:
        for name in FILES:
            large = name in ("events.ndjson", "statements.ndjson")
            size = gibibytes * 1024 * MIB if large else 10
            files.append(ZipMember(name, place, size, size + 1, 7))
            target.seek(place)
            target.write(header(files[-1]))
            place = files[-1].end
        target.seek(place)
        target.write(directory(files))
    with zipfile.ZipFile(path) as archive:
        listed = [
            ZipMember(each.filename, each.header_offset, each.compress_size, each.file_size, each.CRC)
            for each in archive.infolist()
        ]
    assert listed == files
    with (
        open_archive(path, size_limit_bytes=2**40) as opened,
        pytest.raises(InvalidRecord, match="cannot be unp"),
    ):
        opened.read("README.txt", 100)


def test_record_that_was_packed_again_is_refused(path: Path) -> None:
    files = unpack(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    assert _refused(verify_record(path), "in Hutch's format. Use the file as it was exported.")


def test_files_must_be_exactly_ours(path: Path) -> None:
    files = list(unpack(path).items())
    more = [*files, ("notes.txt", b"")]
    other = [*files[:-1], ("manifest.js\x1b", files[-1][1])]
    twice = [*files[:2], *files[1:]]
    for changed in (files[:-1], more, files[::-1], other, twice, []):
        if changed:
            pack(path, changed)
        else:
            zipfile.ZipFile(path, "w").close()
        report = verify_record(path)
        assert not report.ok and report.first_bad is None
        assert (report.problem or "").startswith("The zip") and (report.problem or "").isprintable()


def test_every_byte_that_is_not_data_is_what_it_should_be(path: Path) -> None:
    """Headers, directory and end: whatever is changed there, is refused before anything is read."""
    raw, data = path.read_bytes(), set()
    with open_archive(path, size_limit_bytes=MIB) as archive:
        for file in archive._files.values():
            data |= set(range(file.start, file.end))
    for at in set(range(4, len(raw))) - data:
        for flip in (1, 128, 255):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :])
            assert _refused(verify_record(path), "The zip"), at


def test_no_second_directory_can_be_seen_by_other_readers(path: Path) -> None:
    """A 64-bit end, which some readers use and some do not, beside a classic one for the others."""
    raw = path.read_bytes()
    start = raw.index(b"PK\1\2")
    length = len(raw) - 22 - start
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 5, 5, length, start)
    end64 += struct.pack("<4sLQL", b"PK\6\7", 0, len(raw) - 22, 1)
    for place in ((length, start), (1, 2), (0xFFFFFFFF, 0xFFFFFFFF)):
        path.write_bytes(raw[:-22] + end64 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 5, 5, *place, 0))
        assert _refused(verify_record(path), "directory does not match its files")


@pytest.mark.parametrize("spoil", [lambda raw: raw + b"more", lambda raw: raw + raw], ids=["more", "twice"])
def test_anything_after_the_end_is_refused(path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path.write_bytes(spoil(path.read_bytes()))
    assert _refused(verify_record(path), "is followed by other data")


def test_comment_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"hello"
    assert not verify_record(path).ok


def test_anything_before_or_between_the_files_is_refused(path: Path) -> None:
    raw, junk = path.read_bytes(), b"PK\3\4 nobody sees this"
    for at in (0, raw.index(b"PK\3\4", 1), raw.index(b"PK\1\2")):
        path.write_bytes(raw[:at] + junk + raw[at:])
        assert _refused(verify_record(path), "The zip")


def test_file_that_is_said_to_be_larger_than_all_disks_is_refused(path: Path) -> None:
    raw = path.read_bytes()
    for size in (len(raw), 2**31, 2**63, 2**64 - 1):
        path.write_bytes(raw[:52] + struct.pack("<Q", size) + raw[60:])
        assert _refused(verify_record(path), "The zip is cut short: it ends within README.txt")


def test_data_after_a_files_end_is_refused(path: Path) -> None:
    """A deflate stream that stops before its place is full could hide another."""
    files = unpack(path)
    path.write_bytes(
        laid_out(
            [
                (name, deflated(content) + b"hidden" * (name == "events.ndjson"), content)
                for name, content in files.items()
            ]
        )
    )
    assert _refused(verify_record(path), "events.ndjson does not have the size")


def test_file_that_unpacks_to_less_than_it_declares_is_refused(path: Path) -> None:
    files = [(name, deflated(content), content) for name, content in unpack(path).items()]
    files[3] = (*files[3][:2], files[3][2] + b"\n")
    path.write_bytes(laid_out(files))
    assert _refused(verify_record(path), "keys.json does not have the size")


def test_wrong_checksum_is_refused_and_blames_no_event(path: Path) -> None:
    files = [(name, deflated(content), content) for name, content in unpack(path).items()]
    path.write_bytes(laid_out(files))
    assert verify_record(path).ok
    path.write_bytes(laid_out(files, checksum=7))
    report = verify_record(path)
    assert _refused(report, "README.txt does not match its checksum")
    assert report.first_bad is None


def test_bomb_that_says_so_is_not_unpacked(path: Path) -> None:
    files = unpack(path) | {"events.ndjson": b"\0" * 64 * MIB}
    pack(path, files)
    with _cheap():
        report = verify_record(path, size_limit_bytes=32 * MIB)
    assert _refused(report, "over the limit of 33554432. If you expect this size, raise size_limit_bytes.")


def test_bomb_of_one_endless_line_stops_at_the_limit_for_lines(path: Path) -> None:
    pack(path, unpack(path) | {"events.ndjson": b"\0" * 64 * MIB})
    with _cheap():
        report = verify_record(path, line_limit_bytes=2 * MIB)
    assert (report.first_bad, report.problem) == (1, "Line 1 of events.ndjson is longer than 2097152 bytes.")


@pytest.mark.parametrize("name", FILES)
def test_bomb_that_declares_little_stops_there(path: Path, name: str) -> None:
    files = unpack(path)
    bomb = files | {name: files[name] + b"\n" * 64 * MIB}
    path.write_bytes(laid_out([(each, deflated(bomb[each]), files[each]) for each in files]))
    with _cheap():
        report = verify_record(path)
    assert _refused(report, f"{name} unpacks to more than the {len(files[name])} bytes it declares")


def test_line_may_be_as_long_as_the_limit_and_no_longer(path: Path) -> None:
    longest = max(map(len, unpack(path)["events.ndjson"].splitlines()))
    assert verify_record(path, line_limit_bytes=longest).ok
    assert _refused(verify_record(path, line_limit_bytes=longest - 1), "of events.ndjson is longer than")


def test_line_longer_than_a_block_is_read_whole(path: Path) -> None:
    files = unpack(path)
    first = files["events.ndjson"].replace(b'"ada', b'"' + os.urandom(400_000).hex().encode())
    report = verify_record(pack(path, files | {"events.ndjson": first}))
    assert (report.first_bad, report.problem) == (1, "Event 1: its payload is not the one that was recorded.")


def test_lines_are_whole_wherever_a_block_ends(path: Path) -> None:
    """Also when all packed data is read and the last of it is still to be unpacked."""
    files = unpack(path)
    for count in range(BLOCK_BYTES - 2, BLOCK_BYTES + 300, 7):
        pack(path, files | {"events.ndjson": b"\n" * count})
        with open_archive(path, size_limit_bytes=MIB) as archive:
            assert list(archive.lines("events.ndjson", 0)) == [b""] * count


class _cheap:
    """Fails when the block takes much memory or processor time."""

    def __init__(self, megabytes: int = 12, seconds: float = 3) -> None:
        self.megabytes = megabytes
        self.seconds = seconds

    def __enter__(self) -> None:
        tracemalloc.start()
        self.start = time.process_time()

    def __exit__(self, *error: object) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < self.megabytes * MIB
        assert time.process_time() - self.start < self.seconds
