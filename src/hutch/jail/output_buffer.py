"""The retained part of one output stream of a command: all of it, or head and tail.

A secret that lies across a cut is not recognised by either half. So the bytes next to
the cut are retained too: they are never displayed, but the redactor reads them.
"""

from collections import deque
from collections.abc import Callable

from hutch.domain.redaction import redacted_excerpt
from hutch.system.lazy_dataclass import dataclass

CONTEXT_BYTES = 64 * 1024  # retained on either side of a cut: longer than any secret
INLINE_REDACTION_BYTES = 4 * 1024  # can be redacted without leaving the event loop

Render = Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """Head and tail of a stream; `head` is all of it if nothing was omitted."""

    head: bytes = b""
    tail: bytes = b""
    omitted_bytes: int = 0
    after_head: bytes = b""  # omitted
    before_tail: bytes = b""  # omitted

    def __bytes__(self) -> bytes:
        if not self.omitted_bytes:
            return self.head
        return b"%s%s%s" % (self.head, self._note.encode(), self.tail)

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    @property
    def total_bytes(self) -> int:
        return len(self) + self.omitted_bytes

    def shortened(self, max_bytes: int) -> "StreamOutput":
        """The same output cut to about `max_bytes`."""
        half, around = (max_bytes + 1) // 2, min(max_bytes, CONTEXT_BYTES)
        if len(self) <= 2 * half:
            return self
        first = self.head + (self.after_head if self.omitted_bytes else b"")
        last = self.before_tail + self.tail if self.omitted_bytes else self.head
        return StreamOutput(
            head=first[:half],
            tail=last[-half:],
            omitted_bytes=self.omitted_bytes + len(self) - 2 * half,
            after_head=first[half : half + around],
            before_tail=last[-half - around : -half],
        )

    def render(self, clean: Render, *, clean_end: Render | None = None) -> str:
        """The text without secrets, also at the cut. `clean_end` redacts the end of output that is still
        being printed, where the rest of a secret may follow."""
        clean_end = clean_end or clean
        if not self.omitted_bytes:
            return clean_end(self.head)
        head = redacted_excerpt(self.head + self.after_head, 0, len(self.head), clean)
        last = self.before_tail + self.tail
        return f"{head}{self._note}{redacted_excerpt(last, len(self.before_tail), len(last), clean_end)}"

    @property
    def _note(self) -> str:
        return f"\n[... {self.omitted_bytes} bytes omitted ...]\n"


NO_OUTPUT = StreamOutput()


class StreamBuffer:
    """Receives a stream and retains its first and its last bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.total_bytes = 0
        self._half = max(1, (max_bytes + 1) // 2)
        self._end_bytes = self._half + CONTEXT_BYTES  # retained at either end
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def add(self, data: bytes) -> None:
        self.total_bytes += len(data)
        space = self._end_bytes - len(self._head)
        if space > 0:
            self._head += data[:space]
            data = data[space:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._end_bytes:
                self._tail_bytes -= len(self._tail.popleft())

    @property
    def omitted_bytes(self) -> int:
        return max(0, self.total_bytes - 2 * self._half)

    def output(self) -> StreamOutput:
        if not self.omitted_bytes:
            return StreamOutput(b"".join([self._head, *self._tail]))
        half, is_whole = self._half, self.total_bytes == len(self._head) + self._tail_bytes
        last = b"".join([self._head, *self._tail] if is_whole else self._tail)
        first = last if is_whole else bytes(self._head)
        return StreamOutput(
            head=first[:half],
            tail=last[-half:],
            omitted_bytes=self.omitted_bytes,
            after_head=first[half : self._end_bytes],
            before_tail=last[-self._end_bytes : -half],
        )
