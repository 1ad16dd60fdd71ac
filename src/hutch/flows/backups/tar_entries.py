"""The entries of a backup as a tar file: written and read as a stream, one at a time.

The files are in the format of POSIX (pax), so that GNU tar can unpack a backup, too. The reader
accepts only what the writer writes, and limits what it holds in memory: a backup may come from
somewhere else. Names are bytes, because workspaces have names that are no text.
"""

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass

BLOCK = 512
MAX_EXTENDED_BYTES = 1 << 20  # names and attributes of one entry
MAX_SPARSE_PARTS = 1 << 16
MAX_DIGITS = 19
ATTRIBUTE = "SCHILY.xattr."  # GNU tar's name for extended attributes
END = bytes(2 * BLOCK)

Kind = Literal["file", "directory", "link", "hard link", "pipe", "whiteout"]
TYPES: dict[Kind, bytes] = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "pipe": tarfile.FIFOTYPE,
    "whiteout": tarfile.CHRTYPE,  # a device 0:0, with which overlayfs marks a deleted file
}
KINDS = {type_: kind for kind, type_ in TYPES.items()}


class BadBackup(BadRequest):
    """The file is not a whole backup, or not one that Hutch has written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file, directory, link or other entry, without its content."""

    path: bytes
    kind: Kind
    mode: int = 0o600
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    size: int = 0  # of the content in the backup: for a sparse file, of its parts
    target: bytes = b""  # of a link
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    parts: Sequence[tuple[int, int]] | None = None  # offset and length of the data of a sparse file
    real_size: int = 0  # of a sparse file


def entry_header(entry: Entry) -> bytes:
    """The blocks before the content of an entry. The map of a sparse file follows them."""
    info = tarfile.TarInfo(_text(entry.path))
    info.type, info.mode = TYPES[entry.kind], entry.mode
    info.uid, info.gid, info.size = entry.uid, entry.gid, entry.size
    info.linkname = _text(entry.target)
    seconds, rest = divmod(entry.mtime_ns, 1_000_000_000)
    info.mtime = max(seconds, 0)
    info.pax_headers = {"mtime": f"{seconds}.{rest if seconds >= 0 else 0:09}"}
    for name, value in entry.attributes.items():
        info.pax_headers[ATTRIBUTE + _escaped(name)] = _text(value)
    if entry.parts is not None:
        info.size += len(sparse_map(entry.parts))
        info.name = f"GNUSparseFile.0/{_text(entry.path.rpartition(b'/')[2])}"
        info.pax_headers |= {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": _text(entry.path),
            "GNU.sparse.realsize": str(entry.real_size),
        }
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def sparse_map(parts: Sequence[tuple[int, int]]) -> bytes:
    """The places of the data of a sparse file, before the data."""
    numbers = [len(parts), *(number for part in parts for number in part)]
    text = "".join(f"{number}\n" for number in numbers).encode()
    return text + padding(len(text))


def padding(size: int) -> bytes:
    """The bytes between content of this size and the next block."""
    return bytes(-size % BLOCK)


class TarReader:
    """Reads the entries of a stream in order. Read the content of an entry before the next entry."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._left = 0  # of the content of the present entry
        self._pad = 0

    def next(self) -> Entry | None:
        """The next entry; None at the end."""
        while self.content(1 << 20):
            pass
        self._skip_padding(self._pad)
        self._pad = 0
        extended: dict[str, bytes] = {}
        block = self._exactly(BLOCK)
        if block == END[:BLOCK]:
            return None
        info = _header(block)
        if info.type == tarfile.XHDTYPE:
            if info.size > MAX_EXTENDED_BYTES:
                raise BadBackup("An entry of the backup has names of more than 1 MiB.")
            extended = _records(self._exactly(info.size))
            self._skip_padding(-info.size % BLOCK)
            info = _header(self._exactly(BLOCK))
        return self._entry(info, extended)

    def content(self, count: int) -> bytes:
        """The next bytes of the content, at most `count`; empty at its end."""
        chunk = self._exactly(min(count, self._left))
        self._left -= len(chunk)
        return chunk

    def _entry(self, info: tarfile.TarInfo, extended: Mapping[str, bytes]) -> Entry:
        kind = KINDS.get(info.type)
        if kind is None or (kind == "whiteout" and (info.devmajor or info.devminor)):
            raise BadBackup(f"The backup has an entry of type {info.type!r}, which no backup of Hutch has.")
        size = _number(extended, "size", info.size)
        self._left, self._pad = (size, -size % BLOCK) if kind == "file" else (0, 0)
        parts, path = None, extended.get("path", _bytes(info.name))
        if "GNU.sparse.major" in extended:
            if kind != "file":
                raise BadBackup("The backup has a sparse entry that is not a file.")
            parts, path = self._sparse_map(), extended.get("GNU.sparse.name", b"")
        return Entry(
            path=path.rstrip(b"/"),
            kind=kind,
            mode=info.mode & 0o7777,
            uid=_number(extended, "uid", info.uid),
            gid=_number(extended, "gid", info.gid),
            mtime_ns=_time(extended, int(info.mtime)),
            size=self._left,
            target=extended.get("linkpath", _bytes(info.linkname)),
            attributes={
                _unescaped(name.removeprefix(ATTRIBUTE)): value
                for name, value in extended.items()
                if name.startswith(ATTRIBUTE)
            },
            parts=parts,
            real_size=_number(extended, "GNU.sparse.realsize", 0),
        )

    def _sparse_map(self) -> list[tuple[int, int]]:
        numbers = self._map_numbers()
        count = next(numbers)
        if count > MAX_SPARSE_PARTS:
            raise BadBackup("A sparse file of the backup has too many parts.")
        return [(next(numbers), next(numbers)) for _ in range(count)]

    def _map_numbers(self) -> Iterator[int]:
        """The numbers of a map, one a line; the rest of the last block is empty."""
        text = b""
        while True:
            line, newline, text = text.partition(b"\n")
            if newline and line.isdigit() and len(line) <= MAX_DIGITS:
                yield int(line)
            elif newline or len(line) > MAX_DIGITS or not (block := self.content(BLOCK)):
                raise BadBackup("The map of a sparse file of the backup is damaged.")
            else:
                text = line + block

    def _skip_padding(self, count: int) -> None:
        if self._exactly(count) != bytes(count):
            raise BadBackup(
                "The backup is damaged between two entries. Copy it again from where it was written."
            )

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._read(count - len(data))
            if not more:
                raise BadBackup("The backup is cut short. Copy it again from where it was written.")
            data += more
        return data


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise BadBackup(f"The file is not a backup of Hutch, or it is damaged ({error}).") from None


def _records(data: bytes) -> dict[str, bytes]:
    """The names and values of an extended header: lines that begin with their length."""
    found: dict[str, bytes] = {}
    while data:
        digits, _, _ = data[:10].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        name, equals, value = data[len(digits) + 1 : max(length - 1, 0)].partition(b"=")
        if not equals or length > len(data) or data[length - 1 : length] != b"\n":
            raise BadBackup("The names of an entry of the backup are damaged.")
        found[name.decode("utf-8", "surrogateescape")] = value
        data = data[length:]
    return found


def _number(extended: Mapping[str, bytes], name: str, other: int) -> int:
    text = extended.get(name)
    if text is not None and not (text.isdigit() and len(text) <= MAX_DIGITS):
        raise BadBackup(f"The {name} of an entry of the backup is not a number.")
    number = int(text) if text is not None else other
    if number < 0:
        raise BadBackup(f"The {name} of an entry of the backup is negative.")
    return number


def _time(extended: Mapping[str, bytes], other: int) -> int:
    whole, _, rest = extended.get("mtime", str(other).encode()).partition(b".")
    sign = -1 if whole.startswith(b"-") else 1
    digits = whole.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > 12 or (rest and not rest.isdigit()):
        raise BadBackup("The time of an entry of the backup is not a number.")
    return sign * int(digits) * 1_000_000_000 + int(rest[:9].ljust(9, b"0"))


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("=", "%3D")


def _unescaped(name: str) -> str:
    return name.replace("%3D", "=").replace("%25", "%")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
