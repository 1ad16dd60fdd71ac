"""Somebody at a terminal who watches a session and types to its agent."""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from hutch.cli.asking import names_of_users, short
from hutch.cli.client import Client
from hutch.cli.diff import patch_lines
from hutch.cli.following import follow
from hutch.cli.line_editor import Action, Key, Leave, Submit, Suspend
from hutch.cli.prompt_screen import PromptScreen
from hutch.cli.signals import on_signals
from hutch.cli.spoken import HELP, Said, answer_to, spoken
from hutch.cli.transcript import Asked, Line, Shown, Transcript
from hutch.domain.errors import HutchError

EARLIER_LINES = 200  # of what happened before somebody came
TICK_S = 1.0
GUARD_S = 0.4  # a key that comes sooner after a question was meant for something else
HEAR_BYTES = 65536


class _Earlier:
    """What happened before somebody came: the last of it is shown, in one go."""

    def __init__(self, most: int | None, session_id: str) -> None:
        self._kept: deque[Shown] = deque(maxlen=most)
        self._count = 0
        self._session_id = session_id

    def put(self, shown: Iterable[Shown]) -> list[Shown]:
        for each in shown:
            self._kept.append(each)
            self._count += 1
        return []

    def end(self, shown: Iterable[Shown]) -> list[Shown]:
        """The last of it, and with it all that is kept."""
        self.put(shown)
        missing = self._count - len(self._kept)
        how = f"all of it: hutch attach --after 0 {short(self._session_id)}"
        return [*([Line(f"… {missing} lines before this; {how}", "dim")] if missing else []), *self._kept]


class Attached:
    """One visit."""

    def __init__(self, client: Client, session: dict[str, Any], *, after: int | None = None) -> None:
        self.left = False
        self.transcript = Transcript(state=session["state"])
        self._client, self._session = client, session
        self._after = after
        self._head = int((session.get("head") or {}).get("seq") or 0)
        is_new = self._head <= (after or 0)
        self._earlier = None if is_new else _Earlier(EARLIER_LINES if after is None else None, session["id"])
        self._screen = PromptScreen()
        self._here = True  # the line to the server holds
        self._over = asyncio.Event()
        self._said: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue()
        self._asked: Asked | None = None
        self._asked_at = 0.0
        self._refusing = False  # the next line is why not
        self._state_since = time.monotonic()

    async def run(self) -> None:
        """Until the session has ended, or somebody leaves."""
        self.transcript.me, self.transcript.names = await names_of_users(self._client)
        self.transcript.live_after = self._head
        loop = asyncio.get_running_loop()
        signals: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGWINCH: self._screen.draw,
            **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._leave),
        }
        with self._screen.opened(), on_signals(signals):
            self._show([Line(self._headline(), "dim")])
            loop.add_reader(0, self._hear)
            works = [asyncio.ensure_future(work) for work in (self._follow(), self._speak(), self._tick())]
            over = asyncio.ensure_future(self._over.wait())
            try:
                await asyncio.wait([*works, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                loop.remove_reader(0)
                for task in (*works, over):
                    task.cancel()
                results = await asyncio.gather(*works, return_exceptions=True)
                self._screen.end_line()
        for result in results:
            if isinstance(result, Exception):
                raise result

    # --- what happens ---

    async def _follow(self) -> None:
        updates = follow(self._client, self._session["id"], after=self._after or 0, line=self._line)
        async with aclosing(updates):
            async for update in updates:
                if update.delta is not None:
                    self._show(self.transcript.delta(update.delta))
                elif update.entry is not None:
                    state = self.transcript.state
                    self._show(self.transcript.entry(update.entry), seq=update.entry["seq"])
                    if self.transcript.state != state:
                        self._state_since = time.monotonic()
                self._look()

    def _show(self, shown: Iterable[Shown], seq: int | None = None) -> None:
        if self._earlier is not None and seq is not None:
            shown = self._earlier.put(shown) if seq < self._head else self._earlier.end(shown)
            self._earlier = self._earlier if seq < self._head else None
        self._screen.show(shown)

    def _line(self, here: bool) -> None:
        """The line to the server was cut, or is back."""
        self._here = here
        if not here:
            self.transcript.cut()
        self._look()

    def _look(self) -> None:
        """Say how things are, and make ready for what is asked."""
        if self._earlier is None:
            asked = next(iter(self.transcript.waiting.values()), None)
            if asked != self._asked:
                self._asked, self._asked_at, self._refusing = asked, time.monotonic(), False
        self._screen.status = self._status()
        self._screen.label = self._label()
        self._screen.draw()

    def _headline(self) -> str:
        session = self._session
        what = f"  {purpose}" if (purpose := " ".join(session["purpose"].split())[:100]) else ""
        return f"session {session['id']}{what}"

    def _status(self) -> str:
        parts = [short(self._session["id"])]
        if not self._here:
            parts.append("the server is away; waiting for it")
        elif self._refusing:
            parts.append("it will be told why; Enter alone gives no reason")
        elif self._asked and self._asked.kind == "approval":
            covers = "; ".join(self._asked.covers)
            parts.append(
                f"session and always would allow: {covers}" if covers else "it can be allowed this once only"
            )
        else:
            took_s = int(time.monotonic() - self._state_since)
            doing = f": {self.transcript.doing}" if self.transcript.doing else ""
            place = self._session.get("place") if self.transcript.state == "queued" else None
            queue = f", place {place} in the queue" if place else ""
            running = f" {took_s} s" if self.transcript.state in ("running", "queued", "starting") else ""
            parts.append(f"{self.transcript.state}{doing}{queue}{running}")
        return " · ".join([*parts, "/help", "Ctrl-C leaves"])

    def _label(self) -> str:
        if self._refusing:
            return "no, because: "
        if self._asked and self._asked.kind == "approval":
            return "[y]es [s]ession [a]lways [n]o > " if self._asked.covers else "[y]es [n]o > "
        return "answer: " if self._asked else "> "

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self.transcript.state in ("queued", "starting") and self._here:
                try:
                    self._session = await self._client.get(f"/sessions/{self._session['id']}")
                except HutchError:
                    continue
            self._look()

    # --- what is typed ---

    def _hear(self) -> None:
        data = os.read(0, HEAR_BYTES)
        if not data:
            self._leave()
            return
        editor = self._screen.editor
        ready = self._asked and self._asked.kind == "approval" and not self._refusing
        guarded = time.monotonic() - self._asked_at < GUARD_S
        keys = ("ysan" if self._asked.covers else "yn") if ready and self._asked and not guarded else ""
        editor.hot = frozenset(keys)
        for action in editor.feed(data):
            self._act(action)
        self._look()

    def _act(self, action: Action) -> None:
        match action:
            case Leave():
                self._leave()
            case Suspend():
                with self._screen.given_back():
                    os.kill(0, signal.SIGTSTP)
            case Key(key):
                self._answer(key)
            case Submit(text):
                self._submitted(text.strip())

    def _submitted(self, text: str) -> None:
        asked = self._asked
        if asked and self._refusing:
            self._refusing = False
            self._give(Said("deny", {"call_id": asked.call_id, "reason": text[:1000]}))
        elif asked and asked.kind == "approval" and answer_to(text):
            self._answer(answer_to(text))
        elif not text:
            return
        elif asked and asked.kind == "question" and not text.startswith("/"):
            self._give(Said("answer", {"call_id": asked.call_id, "text": text}))
        else:
            self._speak_up(spoken(text))

    def _speak_up(self, said: Said) -> None:
        match said.kind:
            case "help":
                self._screen.show([Line(line, "dim") for line in HELP])
            case "leave":
                self._leave()
            case "diff":
                self._said.put_nowait(self._diff())
            case "unknown":
                self._screen.show([Line(str(said.fields["why"]), "bad")])
            case _:
                self._give(said)

    def _answer(self, key: str) -> None:
        asked = self._asked
        if asked is None:
            return
        if key == "n":
            self._refusing = True
            return
        scope = {"y": "once", "s": "session", "a": "always"}[key]
        self._give(Said("approve", {"call_id": asked.call_id, "scope": scope}))

    def _give(self, said: Said) -> None:
        self._said.put_nowait(self._send(said))

    async def _send(self, said: Said) -> None:
        await self._client.give(self._session["id"], said.kind, **said.fields)
        if said.kind == "message" and self.transcript.state in ("running", "waiting"):
            self._show([Line(str(said.fields["text"]), "you", "to be heard: ")])

    async def _diff(self) -> None:
        found = await self._client.get(f"/sessions/{self._session['id']}/diff")
        self._screen.show(
            patch_lines(found["patch"]) or [Line("Nothing differs from where it began.", "dim")]
        )

    async def _speak(self) -> None:
        """Send what was typed, in order; what is refused is told."""
        while True:
            sending = await self._said.get()
            try:
                await sending
            except HutchError as error:
                self._screen.show([Line(str(error), "bad")])

    def _leave(self) -> None:
        self.left = True
        self._over.set()
