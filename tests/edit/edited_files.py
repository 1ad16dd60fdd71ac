"""The files of a directory for the edit engine, and a way to read them from disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.file_reads_and_changes import Files


class EditedFiles(Files):
    """A workspace's files, with their directory on this machine."""

    root: Path

    def seen(self) -> dict[str, bytes]:
        """Every file with its content."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@contextmanager
def edited_files(root: Path, kind: type[EditedFiles] = EditedFiles) -> Iterator[EditedFiles]:
    """The files under `root`."""
    with TemporaryDirectory() as place, Directory.at(root) as tree, Directory.at(Path(place)) as journal:
        files = kind(tree, journal)
        files.root = root
        yield files
