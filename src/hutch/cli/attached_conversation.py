"""A user's connection to a session: its output, its open question, and the meaning of a typed line.

Does no input or output itself: the attach prompt and the full-screen app both use it.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

from hutch.cli.render.session_option_change_text import waiting_lines
from hutch.cli.render.session_rows import age
from hutch.cli.render.transcript import Line, OpenQuestion, Rendered, Transcript
from hutch.cli.screens.typed_line_parser import TypedInput, answer_to, parse_line, reason_of_no
from hutch.cli.server_requests import short
from hutch.cli.session_client import SessionClient
from hutch.cli.session_event_stream import Update
from hutch.domain.errors import HutchError, RecordDamaged
from hutch.system.terminal_safe_text import one_line

EARLIER_LINES = 200  # shown of the history before the user attached
MAX_ECHO_CHARS = 40
Until = Callable[[dict[str, Any]], Awaitable[bool]]  # whether this entry is the last to show
TICKING = ("running", "queued", "starting")  # states that show the time spent in them


class Conversation:
    """A user attached to a session."""

    def __init__(self, sessions: SessionClient, session: dict[str, Any], *, after: int | None = None) -> None:
        self.sessions, self.session = sessions, session
        self.transcript = Transcript(state=session["state"])
        self.is_connected = True
        self.problem = ""  # why the session is no longer followed
        self.question: OpenQuestion | None = None
        self._after = after or 0
        head = int((session.get("head") or {}).get("seq") or 0)
        self.transcript.live_after = head
        is_new = head <= self._after
        self._earlier = None if is_new else _Earlier(head, EARLIER_LINES if after is None else None, session)
        self.unread: list[str] = []  # messages to the run that it has not received yet
        self._since = time.monotonic()

    @property
    def id(self) -> str:
        return str(self.session["id"])

    async def watch(
        self,
        show: Callable[[list[Rendered]], None],
        until: Until | None = None,
    ) -> None:
        """Call `show` for every update, with an empty list when only the status has changed.

        Returns when the session ends, or when `until` returns True for an entry.
        """
        self.transcript.me, self.transcript.names = await self.sessions.names(self.session)

        def on_connection(connected: bool) -> None:
            self.is_connected = connected
            if not connected:
                self.transcript.cut()
            show([])

        try:
            following = self.sessions.follow(self.id, after=self._after, on_connection=on_connection)
            async with aclosing(following) as updates:
                async for update in updates:
                    show(self._take(update))
                    if until is not None and update.entry is not None and await until(update.entry):
                        return
        except HutchError as error:
            self.problem = "no longer followed"
            if isinstance(error, RecordDamaged):
                self.problem = "the record is damaged"
            if self._earlier is not None:  # show the history up to the error
                show(self._earlier.all())
                self._earlier = None
            raise

    async def refresh(self) -> None:
        """Update the position in the queue while the session waits there."""
        if self.transcript.state in ("queued", "starting") and self.is_connected:
            try:
                self.session = await self.sessions.get(self.id)
            except HutchError:
                return  # the follower reports the error

    # --- status ---

    @property
    def label(self) -> str:
        """The label of the prompt."""
        if self.question and self.question.kind == "approval":
            return "[y]es [s]ession always [n]o > " if self.question.covers else "[y]es [n]o > "
        if self.question and self.question.choices:
            return f"answer, or 1 to {len(self.question.choices)}: "
        return "answer: " if self.question else "> "

    @property
    def status(self) -> str:
        """The status line."""
        if self.problem:
            return self.problem
        if not self.is_connected:
            return "disconnected; waiting for the server"
        if self.question and self.question.kind == "approval":
            covers = "; ".join(self.question.covers)
            if not covers:
                return "can only be allowed once; no REASON denies it with a reason"
            return f"session and always allow: {covers}; no REASON denies it with a reason"
        state = self.transcript.state
        doing = f": {self.transcript.doing}" if self.transcript.doing else ""
        position = self.session.get("queue_position") if state == "queued" else None
        queue = f", position {position} in the queue" if position else ""
        took = f" {age(int(self._since * 1000), time.monotonic())}" if state in TICKING else ""
        return f"{state}{doing}{queue}{took}"

    # --- input ---

    def line(self, text: str) -> TypedInput | None:
        """The input that a typed line means; None when the line is empty.

        While an approval is open, only one of the exact answers counts, and a no with a reason. Every other
        line, except a command, leaves it open.
        """
        text, question = text.strip(), self.question
        if not text:
            return None
        if question is None or (text.startswith("/") and not text.startswith("//")):
            return parse_line(text)
        if question.kind == "question":
            answer = _choice(question, text) or parse_line(text).fields["text"]
            return TypedInput("answer", {"call_id": question.call_id, "text": answer})
        return _answer(question, text)

    async def give(self, typed: TypedInput) -> list[Rendered]:
        """Send an input; return the lines to show now, since the log has it only later."""
        if typed.kind == "change":
            changed = await self.sessions.change(self.id, typed.fields)
            return [Line(line, "dim") for line in waiting_lines(changed)]
        await self.sessions.give(self.id, typed.kind, **typed.fields)
        if typed.kind == "message" and self.transcript.state in ("running", "waiting"):
            self.unread.append(str(typed.fields["text"]))
            return [Line(str(typed.fields["text"]), "you", "queued: ")]
        return []

    def _take(self, update: Update) -> list[Rendered]:
        state = self.transcript.state
        items: list[Rendered] = []
        if update.delta is not None:
            items = self.transcript.delta(update.delta)
        elif update.entry is not None:
            items = self.transcript.entry(update.entry)
            event = update.entry["event"]
            if event["type"] == "message.sent" and event.get("text") in self.unread:
                self.unread.remove(event["text"])
            if self._earlier is not None:
                items, is_complete = self._earlier.put(items, update.entry["seq"])
                self._earlier = None if is_complete else self._earlier
        if self.transcript.state != state:
            self._since = time.monotonic()
        if self._earlier is None:
            self.question = next(iter(self.transcript.waiting.values()), None)
        return items


def _choice(question: OpenQuestion, text: str) -> str | None:
    """The choice with the typed number."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 3 else 0
    return question.choices[number - 1] if 1 <= number <= len(question.choices) else None


def _answer(question: OpenQuestion, text: str) -> TypedInput:
    """The answer to an approval; a line that is none of those offered asks again."""
    consent, reason = answer_to(text), reason_of_no(text)
    if consent == "no" or reason is not None:
        return TypedInput("deny", {"call_id": question.call_id, "reason": reason or ""})
    if consent is None or (consent != "once" and not question.covers):
        offered = "yes, session, always or no" if question.covers else "yes or no"
        given = one_line(text, MAX_ECHO_CHARS)
        why = f"'{given}' is no answer to this. Answer {offered}; no REASON denies it with a reason."
        return TypedInput("unknown", {"why": why})
    return TypedInput("approve", {"call_id": question.call_id, "scope": consent})


class _Earlier:
    """Buffers the history before the user attached; its last lines are shown together."""

    def __init__(self, head: int, max_lines: int | None, session: dict[str, Any]) -> None:
        self._head = head
        self._buffer: deque[Rendered] = deque(maxlen=max_lines)
        self._count = 0
        self._name = short(session["id"])

    def put(self, items: Iterable[Rendered], seq: int) -> tuple[list[Rendered], bool]:
        """Buffer items; return those to show now, and whether the history is complete."""
        for each in items:
            self._buffer.append(each)
            self._count += 1
        return (self.all(), True) if seq >= self._head else ([], False)

    def all(self) -> list[Rendered]:
        """The buffered lines, after a note on how many were omitted."""
        omitted = self._count - len(self._buffer)
        note = f"… {omitted} earlier lines; to see all: hutch attach --after 0 {self._name}"
        return [*([Line(note, "dim")] if omitted else []), *self._buffer]
