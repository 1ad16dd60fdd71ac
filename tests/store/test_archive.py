"""A hostile zip is refused, and costs little."""

import io
import os
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.archive import BLOCK_BYTES, open_archive
from hutch.store.record import FILES
from hutch.store.verify import Report, verify_bundle

from .sealed import pack, sealed, unpack

MIB = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return sealed().write(tmp_path / "record.zip")


def _refused(report: Report, words: str) -> bool:
    return not report.ok and words in (report.problem or "")


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"record\.zip does not exist\. Give the path of an exported record"):
        verify_bundle(tmp_path / "record.zip")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x7fELF" * 99, b"{}"])
def test_file_that_is_no_zip_is_a_bad_request(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(BadRequest, match="is not a zip file"):
        verify_bundle(path)


def test_what_is_no_file_is_a_bad_request(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BadRequest, match="is not a file"):
            verify_bundle(path)


def test_record_packed_by_another_library_is_read(path: Path) -> None:
    assert verify_bundle(pack(path, unpack(path))).ok


@pytest.mark.parametrize("gigabytes", [3, 5])
def test_record_of_many_gigabytes_is_read(path: Path, gigabytes: int) -> None:
    """Its directory has 64-bit fields: here with small numbers in them, as the zip format allows."""
    path.write_bytes(_widened(path.read_bytes(), fits_in_32_bits=gigabytes < 4))
    assert [info.filename for info in zipfile.ZipFile(path).infolist()] == list(FILES)
    assert verify_bundle(path).ok


def test_files_must_be_exactly_ours(path: Path) -> None:
    files = list(unpack(path).items())
    report = verify_bundle(pack(path, files[:-1]))
    assert _refused(report, "The zip holds 4 files, and a record has 5: README.txt, events.ndjson")
    assert _refused(verify_bundle(pack(path, [*files, ("notes.txt", b"")])), "The zip holds 6 files")
    assert _refused(
        verify_bundle(pack(path, files[::-1])), "holds 'manifest.json' where a record has 'README.txt'"
    )
    renamed = [*files[:-1], ("../manifest.json", files[-1][1])]
    assert _refused(verify_bundle(pack(path, renamed)), "holds '../manifest.json'")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_file_that_is_there_twice_is_refused(path: Path) -> None:
    files = list(unpack(path).items())
    assert _refused(verify_bundle(pack(path, [*files[:2], *files[1:]])), "The zip holds 6 files")
    assert _refused(
        verify_bundle(pack(path, [*files[:2], files[1], *files[3:]])), "where a record has 'statements"
    )


@pytest.mark.parametrize("mode", [0o120777, 0o040755, 0o010644, 0])
def test_symlinks_and_other_kinds_of_file_are_refused(path: Path, mode: int) -> None:
    def tweak(info: zipfile.ZipInfo) -> None:
        if info.filename == "events.ndjson":
            info.external_attr = mode << 16

    report = verify_bundle(pack(path, unpack(path), tweak))
    assert _refused(report, "events.ndjson is not a regular file")


def test_file_that_is_not_deflated_is_refused(path: Path) -> None:
    def tweak(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_STORED

    assert _refused(verify_bundle(pack(path, unpack(path), tweak)), "README.txt is not a plain deflated file")


def test_encrypted_file_is_refused(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    assert _refused(verify_bundle(path), "README.txt is encrypted")


def test_comment_is_refused(path: Path) -> None:
    def tweak(info: zipfile.ZipInfo) -> None:
        info.comment = b"hello"

    assert _refused(verify_bundle(pack(path, unpack(path), tweak)), "README.txt is not a plain")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"hello"
    assert _refused(verify_bundle(path), "has something after its end")


@pytest.mark.parametrize("spoil", [lambda raw: raw + b"more", lambda raw: raw + raw], ids=["more", "twice"])
def test_anything_after_the_end_is_refused(path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path.write_bytes(spoil(path.read_bytes()))
    assert not verify_bundle(path).ok


def test_anything_before_or_between_the_files_is_refused(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(_hidden(raw, 0))
    assert _refused(verify_bundle(path), "there is something before README.txt")
    path.write_bytes(_hidden(raw, raw.index(b"PK\x03\x04", 1)))
    assert _refused(verify_bundle(path), "there is something before events.ndjson")
    path.write_bytes(_hidden(raw, raw.index(b"PK\x01\x02")))
    assert _refused(verify_bundle(path), "something between or after them")


def test_data_after_a_files_end_is_refused(path: Path) -> None:
    """A deflate stream that stops before its place is full could hide another."""
    files = unpack(path)
    path.write_bytes(
        _zip(
            {
                name: _deflate(content) + b"hidden" * (name == "events.ndjson")
                for name, content in files.items()
            },
            files,
        )
    )
    assert _refused(verify_bundle(path), "events.ndjson does not fill the place")


def test_wrong_checksum_is_refused_and_blames_no_event(path: Path) -> None:
    files = unpack(path)
    packed = {name: _deflate(content) for name, content in files.items()}
    path.write_bytes(_zip(packed, files))
    assert verify_bundle(path).ok
    path.write_bytes(_zip(packed, files, checksum=7))
    report = verify_bundle(path)
    assert _refused(report, "README.txt does not match its checksum")
    assert report.first_bad is None


def test_bomb_that_says_so_is_not_unpacked(path: Path) -> None:
    files = unpack(path) | {"events.ndjson": b"\0" * 64 * MIB}
    pack(path, files)
    with _cheap():
        report = verify_bundle(path, size_limit_bytes=32 * MIB)
    assert _refused(report, "over the limit of 33554432. If you expect one so large, raise size_limit_bytes.")


def test_bomb_of_one_endless_line_stops_at_the_limit_for_lines(path: Path) -> None:
    pack(path, unpack(path) | {"events.ndjson": b"\0" * 64 * MIB})
    with _cheap():
        report = verify_bundle(path, line_limit_bytes=2 * MIB)
    assert (report.first_bad, report.problem) == (1, "Line 1 of events.ndjson is longer than 2097152 bytes.")


@pytest.mark.parametrize("name", FILES)
def test_bomb_that_declares_little_stops_there(path: Path, name: str) -> None:
    files = unpack(path)
    packed = {each: _deflate(content) for each, content in files.items()}
    bomb = packed | {name: _deflate(files[name] + b"\n" * 64 * MIB)}
    path.write_bytes(_zip(bomb, files))
    with _cheap():
        report = verify_bundle(path)
    assert _refused(report, f"{name} unpacks to more than the {len(files[name])} bytes it declares")


def test_line_may_be_as_long_as_the_limit_and_no_longer(path: Path) -> None:
    longest = max(map(len, unpack(path)["events.ndjson"].splitlines()))
    assert verify_bundle(path, line_limit_bytes=longest).ok
    assert _refused(verify_bundle(path, line_limit_bytes=longest - 1), "of events.ndjson is longer than")


def test_line_longer_than_a_block_is_read_whole(path: Path) -> None:
    files = unpack(path)
    first = files["events.ndjson"].replace(b'"ada', b'"' + os.urandom(400_000).hex().encode())
    report = verify_bundle(pack(path, files | {"events.ndjson": first}))
    assert (report.first_bad, report.problem) == (1, "Event 1: its payload is not the one that was recorded.")


def test_lines_are_whole_wherever_a_block_ends(path: Path) -> None:
    """Also when all packed data is read and the last of it is still to be unpacked."""
    files = unpack(path)
    for count in range(BLOCK_BYTES - 2, BLOCK_BYTES + 300, 7):
        pack(path, files | {"events.ndjson": b"\n" * count})
        with open_archive(path, size_limit_bytes=MIB) as archive:
            assert list(archive.lines("events.ndjson", 0)) == [b""] * count


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_directory_of_very_many_files_is_not_read(path: Path) -> None:
    pack(path, [("x" * 200, b"")] * 30_000)
    with _cheap(seconds=0.5):
        assert _refused(verify_bundle(path), "The zip holds 30000 files")
    raw = path.read_bytes()
    path.write_bytes(raw[:-14] + struct.pack("<2H", 5, 5) + raw[-10:])
    with _cheap(megabytes=2):
        assert not verify_bundle(path).ok


def test_directory_that_lies_about_its_length_is_refused(path: Path) -> None:
    raw = path.read_bytes()
    for at, value in ((-12, 2**31), (-10, 0xFFFF), (-6, 0xFFFF), (-12, 0)):
        spoilt = bytearray(raw)
        struct.pack_into("<L", spoilt, len(raw) + at, value)
        path.write_bytes(spoilt)
        assert not verify_bundle(path).ok


def test_directory_with_more_in_it_than_files_is_refused(path: Path) -> None:
    raw = path.read_bytes()
    start, length = raw.index(b"PK\x01\x02"), len(raw) - 22 - raw.index(b"PK\x01\x02")
    path.write_bytes(raw[:-22] + b"more" + raw[-22:-10] + struct.pack("<2LH", length + 4, start, 0))
    assert _refused(verify_bundle(path), "something between or after them")


def test_end_that_promises_a_comment_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2] + b"\x05\x00")
    assert _refused(verify_bundle(path), "The zip is cut short")


def test_part_of_a_zip_on_several_disks_is_refused(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 34] = 1
    path.write_bytes(raw)
    assert _refused(verify_bundle(path), "README.txt is not a plain deflated file")


def test_extra_field_with_anything_but_sizes_is_refused(path: Path) -> None:
    def tweak(info: zipfile.ZipInfo) -> None:
        info.extra = struct.pack("<2H", 0xCAFE, 40) + b"x" * 40

    pack(path, unpack(path), tweak)
    assert _refused(verify_bundle(path), "The zip's directory is damaged")
    raw = path.read_bytes()  # and now only beside the file itself
    directory = b"".join(each[:30] + b"\0\0" + each[32:-44] for each in _entries(raw))
    end = raw[-22:-10] + struct.pack("<LLH", len(directory), raw.index(b"PK\x01\x02"), 0)
    path.write_bytes(raw[: raw.index(b"PK\x01\x02")] + directory + end)
    assert _refused(verify_bundle(path), "The zip's directory and the file README.txt itself disagree")


def test_file_that_is_said_to_be_larger_than_all_disks_is_refused(path: Path) -> None:
    raw = _widened(path.read_bytes())
    (second,) = struct.unpack_from("<Q", raw, raw.index(b"events.ndjson", raw.index(b"PK\x01\x02")) + 33)
    packed = struct.unpack_from("<Q", raw, raw.index(b"README.txt", raw.index(b"PK\x01\x02")) + 22)[0]
    huge = raw.replace(struct.pack("<Q", second), struct.pack("<Q", second + 2**64 - 2**20))
    path.write_bytes(huge.replace(struct.pack("<Q", packed), struct.pack("<Q", packed + 2**64 - 2**20)))
    assert _refused(verify_bundle(path), "The zip's directory and the file README.txt itself disagree")


def test_file_that_unpacks_to_less_than_it_declares_is_refused(path: Path) -> None:
    files = unpack(path)
    raw = pack(path, files).read_bytes()
    size = struct.pack("<L", len(files["README.txt"]))
    path.write_bytes(raw.replace(size, struct.pack("<L", len(files["README.txt"]) + 1)))
    assert _refused(verify_bundle(path), "README.txt does not fill the place")


@pytest.mark.parametrize("spoil", [lambda byte: byte ^ 1, lambda byte: byte ^ 128, lambda byte: 255 - byte])
def test_no_number_in_a_directory_of_large_ones_breaks_the_reader(
    path: Path, spoil: Callable[[int], int]
) -> None:
    raw, files = _widened(path.read_bytes()), unpack(path)
    for at in range(raw.index(b"PK\x01\x02"), len(raw)):
        path.write_bytes(raw[:at] + bytes([spoil(raw[at])]) + raw[at + 1 :])
        report = verify_bundle(path)
        assert report.problem or unpack(path) == files, at


class _cheap:
    """Fails when what is inside takes much memory or time."""

    def __init__(self, megabytes: int = 12, seconds: float = 3) -> None:
        self.megabytes = megabytes
        self.seconds = seconds

    def __enter__(self) -> None:
        tracemalloc.start()
        self.start = time.monotonic()

    def __exit__(self, *error: object) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < self.megabytes * MIB
        assert time.monotonic() - self.start < self.seconds


def _deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def _zip(packed: dict[str, bytes], files: dict[str, bytes], checksum: int | None = None) -> bytes:
    """A zip of data already packed, that declares `files` whatever the data is."""
    body, directory = io.BytesIO(), b""
    for name, data in packed.items():
        crc = zlib.crc32(files[name]) if checksum is None else checksum
        sizes = struct.pack("<3L", crc, len(data), len(files[name]))
        offset = body.tell()
        body.write(struct.pack("<4s5H", b"PK\x03\x04", 20, 0, 8, 0, 33) + sizes)
        body.write(struct.pack("<2H", len(name), 0) + name.encode() + data)
        directory += struct.pack("<4s6H", b"PK\x01\x02", 0x314, 20, 0, 8, 0, 33) + sizes
        directory += struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0o100644 << 16, offset) + name.encode()
    end = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, len(packed), len(packed), len(directory), body.tell(), 0
    )
    return body.getvalue() + directory + end


def _entries(raw: bytes) -> list[bytes]:
    """The entries of the directory of a zip without extra fields there."""
    start = raw.index(b"PK\x01\x02")
    return [b"PK\x01\x02" + each for each in raw[start:-22].split(b"PK\x01\x02")[1:]]


def _hidden(raw: bytes, at: int) -> bytes:
    """Something put in at a place, with all offsets moved to fit."""
    junk, start = b"PK\x03\x04 nobody sees this", raw.index(b"PK\x01\x02")
    directory = b""
    for entry in _entries(raw):
        (offset,) = struct.unpack_from("<L", entry, 42)
        directory += entry[:42] + struct.pack("<L", offset + len(junk) * (offset >= at)) + entry[46:]
    end = raw[-22:-6] + struct.pack("<LH", start + len(junk), 0)
    return raw[:at] + junk + raw[at:start] + directory + end


def _widened(raw: bytes, *, fits_in_32_bits: bool = False) -> bytes:
    """The same zip with every number in its directory where large ones go."""
    start, directory = raw.index(b"PK\x01\x02"), b""
    for entry in _entries(raw):
        packed, size = struct.unpack_from("<2L", entry, 20)
        (offset,) = struct.unpack_from("<L", entry, 42)
        extra = struct.pack("<2H3Q", 1, 24, size, packed, offset)
        head = entry[:20] + b"\xff" * 8 + entry[28:30] + struct.pack("<H", len(extra)) + entry[32:42]
        directory += head + b"\xff" * 4 + entry[46:] + extra
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 5, 5, len(directory), start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(directory), 1)
    place = (len(directory), start) if fits_in_32_bits else (0xFFFFFFFF, 0xFFFFFFFF)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 5, 5, *place, 0)
    return raw[:start] + directory + end64 + locator + end
