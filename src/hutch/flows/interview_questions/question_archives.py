"""Questions as archives: one folder in a .zip or .tar.gz file. Archives may come from anywhere.

They are read into memory, never unpacked by a library: links, devices, paths that lead outside, and more
files or bytes than a question may have are refused while they are read, whatever their headers claim.
"""

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hutch.domain.errors import BadRequest, HutchError, LimitReached, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.interview_questions.question_folder_parser import TOML
from hutch.flows.interview_questions.question_folder_reader import (
    IGNORED,
    MAX_BYTES,
    MAX_FILES,
    FileBudget,
    QuestionFiles,
)

MAX_ARCHIVE_BYTES = 2 * MAX_BYTES
MAX_ENTRIES = 2 * MAX_FILES  # with directories
MAX_HEADER_BYTES = 4 * 1024 * 1024  # of a tar file, besides its content
ENDINGS = (".zip", ".tar.gz", ".tgz")
YEAR_1980 = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can name; the same files give the same archive


def is_archive(path: Path) -> bool:
    return path.name.endswith(ENDINGS)


def read_archive(path: Path) -> QuestionFiles:
    """The files of the question in an archive, by their paths in its folder. Blocks the thread."""
    try:
        size = path.stat().st_size
        if size > MAX_ARCHIVE_BYTES:
            raise LimitReached(
                f"{path} has {size:,} bytes; an archive may have {MAX_ARCHIVE_BYTES:,}.",
                limit="question_bytes",
            )
        with path.open("rb") as file:
            data = file.read(MAX_ARCHIVE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from None
    read = _zip_entries if data[:4] == b"PK\x03\x04" else _tar_entries
    files: QuestionFiles = {}
    try:
        for name, file_ in read(data, str(path)):
            if name in files:
                raise BadRequest(f"{path} has {echo(name, 200)} twice.")
            files[name] = file_
    except HutchError:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise BadRequest(f"{path} is not a whole .zip or .tar.gz archive: {error}.") from None
    except (NotImplementedError, RuntimeError) as error:  # encrypted, or an unusual compression
        raise BadRequest(f"{path} cannot be read: {error}.") from None
    return _in_folder(files, path)


def write_archive(files: QuestionFiles, folder: str, path: Path) -> bytes:
    """The content of an archive with the files in one folder; its format is that of the name `path`."""
    if path.name.endswith(".zip"):
        return _zip(files, folder)
    return _tar(files, folder)


def _zip_entries(data: bytes, place: str) -> Iterator[tuple[str, StarterFile]]:
    budget = FileBudget(place)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            raise LimitReached(f"{place} has more than {MAX_ENTRIES} entries.", limit="question_files")
        for entry in entries:
            mode = entry.external_attr >> 16
            if entry.is_dir():
                _check_name(entry.filename.rstrip("/"), place)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise BadRequest(f"{place}: {echo(entry.filename, 200)} is a link or no file.")
            name = _check_name(entry.filename, place)
            with archive.open(entry) as opened:
                content = opened.read(budget.remaining_bytes + 1)
            budget.add(len(content))
            if not _is_ignored(name):
                yield name, StarterFile(content, executable=bool(mode & stat.S_IXUSR))


def _tar_entries(data: bytes, place: str) -> Iterator[tuple[str, StarterFile]]:
    budget, count = FileBudget(place), 0
    with (
        gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked,
        tarfile.open(fileobj=_Limited(unpacked, place), mode="r|") as archive,
    ):
        for entry in archive:
            count += 1
            if count > MAX_ENTRIES:
                raise LimitReached(f"{place} has more than {MAX_ENTRIES} entries.", limit="question_files")
            name = _check_name(entry.name.rstrip("/"), place)
            if entry.isdir():
                continue
            if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise BadRequest(f"{place}: {echo(entry.name, 200)} is a link or no file.")
            budget.add(entry.size)  # before it is read
            opened = archive.extractfile(entry)
            assert opened is not None
            content = opened.read(entry.size)
            if not _is_ignored(name):
                yield name, StarterFile(content, executable=bool(entry.mode & stat.S_IXUSR))


class _Limited(io.RawIOBase):
    """Reads so many bytes of an archive and no more, also if they are headers."""

    def __init__(self, source: gzip.GzipFile, place: str) -> None:
        self._source, self._place, self._left = source, place, MAX_BYTES + MAX_HEADER_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise LimitReached(
                f"{self._place} unpacks to more than {MAX_BYTES >> 20} MiB, the maximum of a question.",
                limit="question_bytes",
            )
        return data


def _check_name(name: str, place: str) -> str:
    """The path of an entry, which must stay inside."""
    path = PurePosixPath(name)
    is_odd = name.startswith("/") or "\\" in name or "\0" in name or ".." in path.parts
    if is_odd or not path.parts or len(name) > 1000:
        raise BadRequest(f"{place} has an entry {echo(name, 200)}, which is not a path inside of a folder.")
    return str(path)


def _is_ignored(name: str) -> bool:
    return bool(IGNORED.intersection(name.split("/")))


def _in_folder(files: QuestionFiles, path: Path) -> QuestionFiles:
    """The files without their common folder."""
    if TOML in files:
        return dict(sorted(files.items()))
    tops = {name.split("/")[0] for name in files}
    if len(tops) != 1 or f"{next(iter(tops))}/{TOML}" not in files:
        raise BadRequest(f"{path} is no question: it must hold one folder with {TOML}.")
    cut = len(next(iter(tops))) + 1
    return {name[cut:]: file for name, file in sorted(files.items())}


def _zip(files: QuestionFiles, folder: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", YEAR_1980)
            entry.external_attr = (stat.S_IFREG | (0o755 if file.executable else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.content)
    return made.getvalue()


def _tar(files: QuestionFiles, folder: str) -> bytes:
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(file.content), 0o755 if file.executable else 0o644
            archive.addfile(entry, io.BytesIO(file.content))
    return made.getvalue()
