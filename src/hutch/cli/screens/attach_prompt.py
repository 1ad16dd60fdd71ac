"""Somebody at a terminal who watches a session and types to its agent."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from hutch.cli.render.layout import patch_lines
from hutch.cli.render.transcript import Line, Shown
from hutch.cli.screens.conversation import Conversation
from hutch.cli.screens.line_editor import Action, Leave, Submit, Suspend
from hutch.cli.screens.prompt import PromptScreen
from hutch.cli.screens.typed_line import HELP, Said
from hutch.cli.server_requests import short
from hutch.cli.session_client import SessionClient
from hutch.cli.signals import on_signals
from hutch.domain.errors import HutchError
from hutch.system.terminal_text import one_line

TICK_S = 1.0
HEAR_BYTES = 65536


class Attached:
    """One visit."""

    def __init__(
        self,
        sessions: SessionClient,
        session: dict[str, Any],
        *,
        after: int | None = None,
        until: Callable[[dict[str, Any]], bool] = lambda entry: False,
        leaving: str = "Ctrl-C leaves",
    ) -> None:
        self.left = False
        self.talk = Conversation(sessions, session, after=after)
        self._until, self._leaving = until, leaving
        self._screen = PromptScreen()
        self._over = asyncio.Event()
        self._said: asyncio.Queue[Coroutine[Any, Any, list[Shown]]] = asyncio.Queue()

    async def run(self) -> None:
        """Until the session has ended, or somebody leaves."""
        loop = asyncio.get_running_loop()
        signals: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGWINCH: self._screen.draw,
            **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._leave),
        }
        with self._screen.opened(), on_signals(signals):
            purpose = one_line(self.talk.session["purpose"], 100)
            self._show([Line(f"session {self.talk.id}  {purpose}", "dim")])
            loop.add_reader(0, self._hear)
            works = [
                asyncio.ensure_future(work)
                for work in (self.talk.watch(self._show, self._until), self._speak(), self._tick())
            ]
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

    def _show(self, shown: list[Shown]) -> None:
        name = short(self.talk.id)
        self._screen.status = " · ".join((name, self.talk.status, "/help", self._leaving))
        self._screen.label = self.talk.label
        self._screen.show(shown)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.talk.look()
            self._show([])

    def _hear(self) -> None:
        data = os.read(0, HEAR_BYTES)
        if not data:
            self._leave()
            return
        for action in self._screen.editor.feed(data):
            self._act(action)
        self._show([])

    def _act(self, action: Action) -> None:
        match action:
            case Leave():
                self._leave()
            case Suspend():
                with self._screen.given_back():
                    os.kill(0, signal.SIGTSTP)
            case Submit(text):
                self._do(self.talk.line(text))

    def _do(self, said: Said | None) -> None:
        match said:
            case None:
                return
            case Said("help"):
                self._show([Line(line, "dim") for line in HELP])
            case Said("leave"):
                self._leave()
            case Said("unknown"):
                self._show([Line(str(said.fields["why"]), "bad")])
            case Said("diff"):
                self._said.put_nowait(self._diff())
            case _:
                self._said.put_nowait(self.talk.give(said))

    async def _diff(self) -> list[Shown]:
        try:
            found = await self.talk.sessions.diff(self.talk.id)
        except HutchError as error:
            return [Line(str(error), "bad")]
        return [*patch_lines(found["patch"])] or [Line("Nothing differs from where it began.", "dim")]

    async def _speak(self) -> None:
        """Send what was typed, in order; what is refused is told."""
        while True:
            self._show(await (await self._said.get()))

    def _leave(self) -> None:
        self.left = True
        self._over.set()
