"""The progress of a backup or restoration, on one line of a terminal."""

import os
import sys
import time
from collections.abc import Callable

from hutch.cli.render.byte_size import byte_size
from hutch.flows.backups.backup_writer import Progress

INTERVAL_S = 0.2
CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows progress while standard error is a terminal. `check` raises when the work must stop."""

    def __init__(self, check: Callable[[], None], *, quiet: bool) -> None:
        self._check = check
        self._is_shown = not quiet and os.isatty(2)
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        self._check()
        now = time.monotonic()
        if not self._is_shown or now < self._next:
            return
        self._next = now + INTERVAL_S
        counted = f": {progress.files:,} files, {byte_size(progress.bytes)}" if progress.files else ""
        sys.stderr.write(f"{CLEAR}{progress.step}{counted}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
