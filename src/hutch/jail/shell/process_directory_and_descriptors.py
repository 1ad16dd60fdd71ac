"""The directory and the descriptors of a process, by its links in /proc."""

import os

DELETED = " (deleted)"


class ProcLinks:
    """The links of one process, by a descriptor of the process's directory in /proc.

    A shell would answer with a variable that any command can set. The kernel gives the directory itself,
    by its own path, whatever links led there.
    """

    def __init__(self, process: int) -> None:
        self._process = process

    def read_cwd(self) -> str | None:
        """The directory; None when the process has ended. A name that is not UTF-8 comes with lone
        surrogates."""
        if self._process < 0:
            return None
        try:
            path = os.readlink("cwd", dir_fd=self._process)
            if path.endswith(DELETED) and os.stat("cwd", dir_fd=self._process).st_nlink == 0:
                return path.removesuffix(DELETED)
        except OSError:
            return None
        return path

    def read_descriptor(self, number: int) -> str:
        """The target of a descriptor; "" when there is none."""
        try:
            return os.readlink(f"fd/{number}", dir_fd=self._process) if self._process >= 0 else ""
        except OSError:
            return ""

    def close(self) -> None:
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def displayed_path(cwd: str) -> str:
    """The same as text for people and logs."""
    return cwd if cwd.isascii() else cwd.encode(errors="surrogateescape").decode(errors="replace")
