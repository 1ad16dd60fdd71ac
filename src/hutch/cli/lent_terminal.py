"""The user's own terminal, lent to a program in a jail and always restored."""

import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hutch.jail.interface import Size

OTHER_SCREEN, OWN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
# Resets what a killed program may leave behind: colours, a hidden cursor, keypad, mouse and paste modes.
RESET_SEQUENCE = b"\x1b[0m\x1b[?25h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l"
KNOWN_TYPES = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo")
DEFAULT_TYPE = "xterm-256color"


class OwnTerminal:
    """The terminal on our standard input and output."""

    def __init__(self) -> None:
        self._on_other_screen = False
        self._saved: list[Any] = []

    @staticmethod
    def is_there() -> bool:
        return os.isatty(0) and os.isatty(1)

    def size(self) -> Size:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
        return Size(rows or 24, columns or 80)

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass every key through unchanged within the block."""
        self._saved = termios.tcgetattr(0)
        try:
            self.make_raw()
            yield
        finally:
            self._restore()

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Restore the terminal's modes within the block, inside `raw`."""
        self._restore()
        try:
            yield
        finally:
            self.make_raw()

    def _restore(self) -> None:
        with suppress(termios.error):  # it may be gone
            termios.tcsetattr(0, termios.TCSANOW, self._saved)

    def make_raw(self) -> None:
        """Set raw mode, also again after the process was stopped and continued."""
        with suppress(termios.error):
            tty.setraw(0, termios.TCSADRAIN)

    def watch(self, data: bytes) -> None:
        """Track whether a program has entered or left the alternate screen."""
        entered, left = data.rfind(OTHER_SCREEN), data.rfind(OWN_SCREEN)
        if entered != left:
            self._on_other_screen = entered > left

    def reset_sequence(self) -> bytes:
        """The escape sequence that cleans up after a program that was killed."""
        return (OWN_SCREEN if self._on_other_screen else b"") + RESET_SEQUENCE


def known_type(name: str) -> str:
    """The terminal's type if programs in a jail know it, else the default."""
    files = (Path(directory, name[:1], name) for directory in KNOWN_TYPES)
    return name if name and "/" not in name and any(file.exists() for file in files) else DEFAULT_TYPE
