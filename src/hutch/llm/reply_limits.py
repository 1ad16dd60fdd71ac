"""Limits for a server's replies: an endless line or reply would use up the memory."""

from hutch.domain.errors import Unavailable
from hutch.llm.interface import CallArguments, CallStarted, Delta, Text, Thinking

MAX_EVENT_BYTES = 16 * 1024 * 1024  # also of an error and of a list of models
MAX_REPLY_CHARS = 16 * 1024 * 1024  # of text, thoughts and arguments together
CALL_CHARS = 100  # counted for a call besides its arguments
REPORTED = f"more than {MAX_REPLY_CHARS // 1024**2} MiB. Retry, or choose another model."


class Bound:
    """Counts the characters of a reply."""

    def __init__(self) -> None:
        self._remaining = MAX_REPLY_CHARS

    def add(self, delta: Delta) -> None:
        match delta:
            case Text() | Thinking() | CallArguments():
                self._remaining -= len(delta.text)
            case CallStarted():
                self._remaining -= CALL_CHARS + len(delta.tool)
        if self._remaining < 0:
            raise Unavailable(f"The server sends a reply without end: {REPORTED}")
