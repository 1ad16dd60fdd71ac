"""Part of a file, by lines or bytes."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, NotFound
from hutch.edit.encoded_file_text import Text, split_lines
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.partial_read import (
    MAX_READ_BYTES,
    MAX_WHOLE_FILE_BYTES,
    Binary,
    Bytes,
    Lines,
    decode_chunks,
    read_lines,
    read_range,
    slice_lines,
)
from tests.hypothesis_examples import examples
from tests.workspace.file_change_helpers import sha


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Directory]:
    with Directory.at(tmp_path) as directory:
        yield directory


def test_lines(tree: Directory, tmp_path: Path) -> None:
    data = b"one\ntwo\r\nthree\rfour"
    (tmp_path / "file").write_bytes(data)
    about = ("UTF-8", len(data), sha(data))
    assert read_lines(tree, "file") == Lines("file", "one\ntwo\r\nthree\rfour", 1, 4, 4, False, *about)
    assert read_lines(tree, "file", 2, 3) == Lines("file", "two\r\nthree\r", 2, 3, 4, False, *about)
    assert read_lines(tree, "file", 4, 99) == Lines("file", "four", 4, 4, 4, False, *about)
    with pytest.raises(BadRequest, match="has 4 lines, so there is no line 5"):
        read_lines(tree, "file", 5)
    for first, last in ((0, 1), (3, 2), (-1, None)):
        with pytest.raises(BadRequest, match="are no range"):
            read_lines(tree, "file", first, last)
    with pytest.raises(NotFound):
        read_lines(tree, "none")


def test_an_empty_file_has_no_lines(tree: Directory, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_lines(tree, "file") == Lines("file", "", 1, 0, 0, False, "UTF-8", 0, sha(b""))


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16 LE"), ("utf-16-be", "UTF-16 BE"), ("cp1251", "cp1251")],
)
def test_encodings(tree: Directory, tmp_path: Path, encoding: str, name: str) -> None:
    text = "Привет, мир\nвторая строка текста\r\nтретья строка\n" * 20
    (tmp_path / "file").write_bytes(text.encode(encoding))
    found = read_lines(tree, "file")
    assert isinstance(found, Lines)
    assert (found.text, found.encoding, found.total_lines) == (text, name, 60)


def test_text_can_always_be_shown(tree: Directory, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("été naïf où ça\n".encode() * 50 + b"\xff stray\n")
    found = read_lines(tree, "file")
    assert isinstance(found, Lines)
    found.text.encode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "PNG image"),
        (b"\x7fELF\x02\x01\x01\x00", "ELF program or library"),
        (b"PK\x03\x04\x00\x00", "zip archive"),
        (b"RIFF\x00\x00\x00\x00WEBP\x00", "WebP image"),
        (b"\x00" * 257 + b"ustar\x00", "tar archive"),
        (b"\x00\x01\x02\x03", "binary data"),
    ],
)
def test_binary_files_are_reported_as_such(tree: Directory, tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "file").write_bytes(data)
    expected = Binary("file", kind, len(data), data[:64].hex())
    assert read_lines(tree, "file") == expected
    assert read_lines(tree, "file", 1, 2) == expected
    with (tmp_path / "file").open("ab") as file:
        file.truncate(MAX_WHOLE_FILE_BYTES + 1)
    assert read_lines(tree, "file") == Binary(
        "file", kind, MAX_WHOLE_FILE_BYTES + 1, data.ljust(64, b"\0")[:64].hex()
    )


def test_bytes(tree: Directory, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    assert read_range(tree, "file", 10, 5) == Bytes("file", bytes(range(10, 15)), 10, 100)
    assert read_range(tree, "file", 98, 5).data == bytes((98, 99))
    assert read_range(tree, "file", 1000).data == b""
    for start, length in ((-1, 5), (0, MAX_READ_BYTES + 1), (0, -1)):
        with pytest.raises(BadRequest):
            read_range(tree, "file", start, length)


def test_a_large_file_is_read_by_range_and_never_whole(tree: Directory, tmp_path: Path) -> None:
    line = b"%09d: the quick brown fox jumps over the lazy dog, again and again and again\n"
    count = 500_000
    with (tmp_path / "large").open("wb") as file:
        file.writelines(line % number for number in range(1, count + 1))
    size = (tmp_path / "large").stat().st_size
    with pytest.raises(BadRequest, match="Read a range"):
        read_lines(tree, "large")
    tracemalloc.start()
    found = read_lines(tree, "large", 400_000, 400_001)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    text = (line % 400_000 + line % 400_001).decode()
    assert found == Lines("large", text, 400_000, 400_001, None, False, "UTF-8", size, None)
    assert most < 12_000_000 < size
    last = (line % count).decode()
    assert read_lines(tree, "large", count) == Lines(
        "large", last, count, count, count, False, "UTF-8", size, None
    )
    with pytest.raises(BadRequest, match="has 500,000 lines, so there is no line 500,001"):
        read_lines(tree, "large", count + 1)
    first = read_lines(tree, "large", 1)
    assert isinstance(first, Lines)
    assert first.cut
    assert len(first.text) <= MAX_READ_BYTES
    assert first.text.encode() == b"".join(line % number for number in range(1, first.last_line + 1))


def test_a_line_without_end(tree: Directory, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MAX_WHOLE_FILE_BYTES * 2))
    found = read_lines(tree, "large", 1, 1)
    assert isinstance(found, Lines)
    assert (found.text, found.cut) == ("x" * MAX_READ_BYTES, True)
    (tmp_path / "small").write_bytes(b"x" * (MAX_READ_BYTES + 1) + b"\nsecond\n")
    found = read_lines(tree, "small")
    assert isinstance(found, Lines)
    assert (found.text, found.last_line, found.total_lines, found.cut) == ("x" * MAX_READ_BYTES, 1, 2, True)


texts = st.text(st.sampled_from("ab\n\r é𝄞"), max_size=60)


@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts, st.integers(1, 12), st.integers(0, 5), st.integers(1, 7), st.sampled_from(["utf-8", "utf-16"]))
def test_a_large_file_has_the_lines_of_a_small_one(
    tree: Directory, tmp_path: Path, text: str, first: int, more: int, chunk: int, encoding: str
) -> None:
    """Read in pieces of a few bytes, as if it were large, and at once."""
    data = text.encode(encoding)
    lines = split_lines(text)
    (tmp_path / "file").write_bytes(data)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        found = slice_lines(decode_chunks(fd, Text("", *_encoding(encoding)), chunk), first, first + more)
    finally:
        os.close(fd)
    assert found.lines == lines[first - 1 : first + more]
    assert found.total in (None, len(lines))
    assert found.total is not None or len(found.lines) == more + 1
    assert not found.cut


def _encoding(name: str) -> tuple[str, bytes]:
    return ("utf-16-le", b"\xff\xfe") if name == "utf-16" else (name, b"")
