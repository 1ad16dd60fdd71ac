"""Standard output and error of a server, which must not block on their reader.

A full pipe and a stopped terminal (Ctrl-S) block a write, and with it the event loop and every signal.
So writes go into a bounded queue, and a thread performs them. Lines that do not fit are dropped; when
the reader continues, a line says how many are missing.
"""

import io
import logging
import os
import sys
import threading
import time
from collections import deque

MAX_QUEUED_CHARS = 1024 * 1024
DRAIN_TIMEOUT_S = 1.0  # the maximum time that the end of the process waits for a reader


class QueuedOutput(io.TextIOBase):
    """A text stream whose writes never block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue: deque[str] = deque()
        self._queued_chars = 0
        self._dropped_lines = 0
        self._is_broken = False  # the reader has closed its end
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"output-{fd}", daemon=True)
        self._thread.start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() takes text, not {type(text).__name__}")
        with self._changed:
            # After a dropped line, drop all until the queue is empty: so there is one gap with one note.
            if self._dropped_lines or self._queued_chars + len(text) > MAX_QUEUED_CHARS:
                self._dropped_lines += max(1, text.count("\n"))
                self._changed.notify_all()
            elif text and not self._is_broken:
                self._queue.append(text)
                self._queued_chars += len(text)
                self._changed.notify_all()
        return len(text)

    @property
    def is_dropping(self) -> bool:
        """True while dropped lines are not yet reported."""
        return bool(self._dropped_lines)

    def flush(self) -> None:
        """Does not wait; `drain` does."""

    def drain(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Wait until everything is written, or until the timeout."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while self._queue and (remaining_s := until - time.monotonic()) > 0:
                self._changed.wait(remaining_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._dropped_lines:
                    self._changed.wait()
                text, dropped = self._queue[0] if self._queue else "", self._dropped_lines
            if not text:
                self._add_note(dropped)
                continue
            is_written = self._write_all(text.encode(errors="backslashreplace"))
            with self._changed:
                self._queue.popleft()
                self._queued_chars -= len(text)
                if not is_written:
                    self._is_broken = True
                    self._queue.clear()
                    self._queued_chars = 0
                self._changed.notify_all()

    def _add_note(self, dropped: int) -> None:
        note = self._note(dropped)  # not under the lock: a handler formats it under a lock of its own
        with self._changed:
            self._dropped_lines -= dropped
            if not self._is_broken:
                self._queue.append(note)
                self._queued_chars += len(note)

    def _write_all(self, data: bytes) -> bool:
        """Write in this thread, which may block; False when there is no reader any more."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return False
        return True

    def _note(self, count: int) -> str:
        """A line about missing lines, in the format of the log."""
        for handler in logging.getLogger().handlers:
            if getattr(handler, "stream", None) is self:
                about = {"name": "hutch.output", "levelno": logging.WARNING, "levelname": "WARNING"}
                record = logging.makeLogRecord({**about, "msg": "output.lines_missing", "count": count})
                return handler.format(record) + "\n"
        return f"hutch: {count} lines are missing here, because the reader stopped.\n"


def queue_output() -> None:
    """From now on output of this process never blocks it."""
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stdout, sys.stderr = QueuedOutput(sys.stdout.fileno()), QueuedOutput(sys.stderr.fileno())


def drain_output() -> None:
    """Before the end of the process: wait until the last lines are written, if there is a reader."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, QueuedOutput):
            stream.drain()
