"""Sends the parts of a model's replies, without secrets, to the followers of a session.

Neighbouring chunks that were read at the same time are sent as one part: redacting and sending costs the
same for a word as for a paragraph.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field

from hutch.domain.events import Event, ModelReplied
from hutch.domain.redaction import Redactor
from hutch.domain.stream_redactor import StreamRedactor
from hutch.llm import interface as llm
from hutch.sessions.interface import Delta
from hutch.system.lazy_dataclass import dataclass


@dataclass(slots=True)
class DeltaStream:
    """Sends the parts of the replies in one run."""

    run_id: str
    redactor: Redactor
    send: Callable[[Delta], None]
    end_reply: Callable[[], None]  # called when the log has the reply
    turn: int = 1
    _pending: list[str] = field(default_factory=list)  # chunks of one stream that are not sent yet
    _pending_key: tuple[str, str] = ("", "")
    _streams: dict[tuple[str, str], StreamRedactor] = field(default_factory=dict)

    async def end_turns(self, events: Sequence[Event]) -> None:
        """Start the next turn after each recorded reply."""
        for event in events:
            if isinstance(event, ModelReplied):
                self._flush()
                self.turn = event.turn + 1
                self._streams.clear()
                self.end_reply()

    def add(self, piece: llm.Delta) -> None:
        match piece:
            case llm.Text(text):
                self._add("text", text)
            case llm.Thinking(text):
                self._add("thinking", text)
            case llm.CallStarted(id, tool):
                self._flush()
                self.send(Delta(self.run_id, self.turn, "call", "", id, tool))
            case llm.CallArguments(id, text):
                self._add("arguments", text, id)
            case llm.Again(message=message):
                self._flush()
                self._streams.clear()
                self.send(Delta(self.run_id, self.turn, "again", self.redactor.redact(message)))
            case llm.Finish():
                self._flush()
                for (kind, id), stream in self._streams.items():
                    self._send(kind, stream.end(), id)

    def _add(self, kind: str, text: str, id: str = "") -> None:
        if self._pending and self._pending_key != (kind, id):
            self._flush()
        if not self._pending:
            self._pending_key = (kind, id)
            asyncio.get_running_loop().call_soon(self._flush)  # when no more chunks can be read
        self._pending.append(text)

    def _flush(self) -> None:
        if not self._pending:
            return
        kind, id = self._pending_key
        text = "".join(self._pending)
        self._pending.clear()
        if kind == "text" and (thought := self._streams.pop(("thinking", ""), None)) is not None:
            self._send("thinking", thought.end(), "")  # its last word, before the text and not after it
        stream = self._streams.get((kind, id))
        if stream is None:
            stream = self._streams[kind, id] = StreamRedactor(self.redactor)
        self._send(kind, stream.add(text), id)

    def _send(self, kind: str, text: str, id: str) -> None:
        if not text:
            return
        match kind:
            case "text" | "thinking" | "arguments":
                self.send(Delta(self.run_id, self.turn, kind, text, id))
