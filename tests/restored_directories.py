"""Directories that can be put back to how they were, for tests that begin where the same work has ended."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


class Saved:
    """Copies of directories, with owners, modes and times."""

    def __init__(self, copies: Path, directories: tuple[Path, ...]) -> None:
        self._copies = {directory: copies / str(number) for number, directory in enumerate(directories)}
        for directory, copy in self._copies.items():
            _copy(directory, copy)

    def restore(self) -> None:
        for directory, copy in self._copies.items():
            shutil.rmtree(directory)
            _copy(copy, directory)


@contextmanager
def saved(*directories: Path) -> Iterator[Saved]:
    """The present content of these directories; nothing may use them while they are restored."""
    with TemporaryDirectory(prefix="hutch-test-saved-") as copies:
        yield Saved(Path(copies), directories)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)
