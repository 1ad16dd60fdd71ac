"""Somebody and a session: what is shown, what is asked, and what a line means now.

Nothing here reads or draws: a terminal's bottom line and the full screen both use it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any

from hutch.cli.event_stream import Update
from hutch.cli.render.session_rows import age
from hutch.cli.render.transcript import Line, OpenQuestion, Shown, Transcript
from hutch.cli.screens.typed_line import MAX_REASON_CHARS, Said, answer_to, parse_line
from hutch.cli.server_requests import short
from hutch.cli.session_client import SessionClient
from hutch.domain.errors import HutchError, RecordDamaged

EARLIER_LINES = 200  # of what happened before somebody came
TICKING = ("running", "queued", "starting")  # states in which seconds are counted


class Conversation:
    """One visit to a session."""

    def __init__(self, sessions: SessionClient, session: dict[str, Any], *, after: int | None = None) -> None:
        self.sessions, self.session = sessions, session
        self.transcript = Transcript(state=session["state"])
        self.here = True  # the line to the server holds
        self.problem = ""  # why the session is not followed any more
        self.asked: OpenQuestion | None = None
        self._after = after or 0
        head = int((session.get("head") or {}).get("seq") or 0)
        self.transcript.live_after = head
        is_new = head <= self._after
        self._earlier = None if is_new else _Earlier(head, EARLIER_LINES if after is None else None, session)
        self._since = time.monotonic()

    @property
    def id(self) -> str:
        return str(self.session["id"])

    async def watch(
        self,
        show: Callable[[list[Shown]], None],
        until: Callable[[dict[str, Any]], bool] = lambda entry: False,
    ) -> None:
        """Show what happens, also when only how things stand has changed; until the session has ended, or an
        entry is the last that is wanted."""
        self.transcript.me, self.transcript.names = await self.sessions.names(self.session)

        def line(here: bool) -> None:
            self.here = here
            if not here:
                self.transcript.cut()
            show([])

        try:
            following = self.sessions.follow(self.id, after=self._after, line=line)
            async with aclosing(following) as updates:
                async for update in updates:
                    show(self._take(update))
                    if update.entry is not None and until(update.entry):
                        return
        except HutchError as error:
            self.problem = "not followed any more"
            if isinstance(error, RecordDamaged):
                self.problem = "the record is damaged"
            if self._earlier is not None:  # what came before this is shown all the same
                show(self._earlier.all())
                self._earlier = None
            raise

    async def look(self) -> None:
        """Ask for its position in the queue, while it waits there."""
        if self.transcript.state in ("queued", "starting") and self.here:
            try:
                self.session = await self.sessions.get(self.id)
            except HutchError:
                return  # whoever follows it notices

    # --- how things are ---

    @property
    def label(self) -> str:
        """What stands before the line to type on."""
        if self.asked and self.asked.kind == "approval":
            return "[y]es [s]ession [a]lways [n]o > " if self.asked.covers else "[y]es [n]o > "
        return "answer: " if self.asked else "> "

    @property
    def status(self) -> str:
        """How things are, in a few words."""
        if self.problem:
            return self.problem
        if not self.here:
            return "the server is away; waiting for it"
        if self.asked and self.asked.kind == "approval":
            covers = "; ".join(self.asked.covers)
            if not covers:
                return "it can be allowed this once only; other text is no, with that reason"
            return f"session and always would allow: {covers}; other text is no, with that reason"
        state = self.transcript.state
        doing = f": {self.transcript.doing}" if self.transcript.doing else ""
        position = self.session.get("queue_position") if state == "queued" else None
        queue = f", position {position} in the queue" if position else ""
        took = f" {age(int(self._since * 1000), time.monotonic())}" if state in TICKING else ""
        return f"{state}{doing}{queue}{took}"

    # --- what somebody does ---

    def line(self, text: str) -> Said | None:
        """The input that a typed line stands for; None when the line is empty.

        While an approval is asked for, only one of the answers allows it. Every other line, except a
        command, denies it with that line as the reason.
        """
        text, asked = text.strip(), self.asked
        if not text:
            return None
        if asked is None or (text.startswith("/") and not text.startswith("//")):
            return parse_line(text)
        if asked.kind == "question":
            return Said("answer", {"call_id": asked.call_id, "text": parse_line(text).fields["text"]})
        consent = answer_to(text)
        if consent in ("session", "always") and not asked.covers:  # which was not offered
            consent = None
        if consent is None or consent == "no":
            reason = "" if consent else parse_line(text).fields["text"][:MAX_REASON_CHARS]
            return Said("deny", {"call_id": asked.call_id, "reason": reason})
        return Said("approve", {"call_id": asked.call_id, "scope": consent})

    async def give(self, said: Said) -> list[Shown]:
        """Send it; what is to be shown of that, since the log says it only later."""
        try:
            await self.sessions.give(self.id, said.kind, **said.fields)
        except HutchError as error:
            return [Line(str(error), "bad")]
        if said.kind == "message" and self.transcript.state in ("running", "waiting"):
            return [Line(str(said.fields["text"]), "you", "to be heard: ")]
        return []

    def _take(self, update: Update) -> list[Shown]:
        state = self.transcript.state
        shown: list[Shown] = []
        if update.delta is not None:
            shown = self.transcript.delta(update.delta)
        elif update.entry is not None:
            shown = self.transcript.entry(update.entry)
            if self._earlier is not None:
                shown, is_over = self._earlier.put(shown, update.entry["seq"])
                self._earlier = None if is_over else self._earlier
        if self.transcript.state != state:
            self._since = time.monotonic()
        if self._earlier is None:
            self.asked = next(iter(self.transcript.waiting.values()), None)
        return shown


class _Earlier:
    """What happened before somebody came: the last of it is shown, in one go."""

    def __init__(self, head: int, most: int | None, session: dict[str, Any]) -> None:
        self._head = head
        self._kept: deque[Shown] = deque(maxlen=most)
        self._count = 0
        self._name = short(session["id"])

    def put(self, shown: Iterable[Shown], seq: int) -> tuple[list[Shown], bool]:
        """What is to be shown by now, and whether that was all."""
        for each in shown:
            self._kept.append(each)
            self._count += 1
        return (self.all(), True) if seq >= self._head else ([], False)

    def all(self) -> list[Shown]:
        """The last lines, after a note of how many came before them."""
        missing = self._count - len(self._kept)
        note = f"… {missing} lines before this; all of it: hutch attach --after 0 {self._name}"
        return [*([Line(note, "dim")] if missing else []), *self._kept]
