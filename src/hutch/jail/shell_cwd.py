"""Where a shell is, as the kernel knows it.

What a shell would say is a variable that any command can set. The kernel tells
the directory itself: by its own path, whatever links led there.
"""

import os

DELETED = " (deleted)"


class ShellCwd:
    """Looks at one process, by a descriptor of its directory in /proc."""

    def __init__(self, process: int) -> None:
        self._process = process

    def read(self) -> str | None:
        """None when the process is gone. A name that is no UTF-8 comes with lone surrogates."""
        if self._process < 0:
            return None
        try:
            path = os.readlink("cwd", dir_fd=self._process)
            if path.endswith(DELETED) and os.stat("cwd", dir_fd=self._process).st_nlink == 0:
                return path.removesuffix(DELETED)
        except OSError:
            return None
        return path

    def close(self) -> None:
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def shown(cwd: str) -> str:
    """The same for people and logs, which know only text."""
    return cwd if cwd.isascii() else cwd.encode(errors="surrogateescape").decode(errors="replace")
