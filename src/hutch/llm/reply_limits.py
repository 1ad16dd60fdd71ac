"""How much a server may send: a line or a reply that never ends would take all the memory there is."""

from hutch.domain.errors import Unavailable
from hutch.llm.interface import CallArguments, CallStarted, Delta, Text, Thinking

MAX_EVENT_BYTES = 16 * 1024 * 1024  # also of an error and of a list
MAX_REPLY_CHARS = 16 * 1024 * 1024  # of text, thoughts and arguments together
CALL_CHARS = 100  # what a call takes beside its arguments
REPORTED = f"more than {MAX_REPLY_CHARS // 1024**2} MiB. Ask again, or choose another model."


class Bound:
    """Counts what a reply is made of."""

    def __init__(self) -> None:
        self._left = MAX_REPLY_CHARS

    def add(self, piece: Delta) -> None:
        match piece:
            case Text() | Thinking() | CallArguments():
                self._left -= len(piece.text)
            case CallStarted():
                self._left -= CALL_CHARS + len(piece.tool)
        if self._left < 0:
            raise Unavailable(f"The server sends a reply without end: {REPORTED}")
