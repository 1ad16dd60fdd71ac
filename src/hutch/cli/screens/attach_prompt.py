"""The prompt of `hutch attach`: watch a session on a terminal and type to its agent."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from hutch.cli.attached_conversation import Conversation, Until
from hutch.cli.render.terminal_line_layout import patch_lines
from hutch.cli.render.transcript import Line, Rendered
from hutch.cli.screens.line_editor import Action, Leave, Submit, Suspend
from hutch.cli.screens.scrolling_output_and_prompt import PromptScreen
from hutch.cli.screens.typed_line_parser import HELP, TypedInput
from hutch.cli.server_requests import short
from hutch.cli.session_client import SessionClient
from hutch.cli.signals_and_closed_output import on_signals
from hutch.domain.errors import HutchError
from hutch.system.terminal_safe_text import one_line

TICK_INTERVAL_S = 1.0
READ_BYTES = 65536


class AttachPrompt:
    """A terminal attached to a session."""

    def __init__(
        self,
        sessions: SessionClient,
        session: dict[str, Any],
        *,
        after: int | None = None,
        until: Until | None = None,
        leaving: str = "Ctrl-C detaches",
    ) -> None:
        self.left = False
        self.conversation = Conversation(sessions, session, after=after)
        self._until, self._leaving = until, leaving
        self._screen = PromptScreen()
        self._ended = asyncio.Event()
        self._actions: asyncio.Queue[Coroutine[Any, Any, list[Rendered]]] = asyncio.Queue()

    async def run(self) -> None:
        """Run until the session ends or the user detaches."""
        loop = asyncio.get_running_loop()
        signals: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGWINCH: self._screen.draw,
            **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._leave),
        }
        with self._screen.opened(), on_signals(signals):
            purpose = one_line(self.conversation.session["purpose"], 100)
            self.show([Line(f"session {self.conversation.id}  {purpose}", "dim")])
            loop.add_reader(0, self._read_keys)
            works = [
                asyncio.ensure_future(work)
                for work in (
                    self.conversation.watch(self.show, self._until),
                    self._run_actions(),
                    self._tick(),
                )
            ]
            ended = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait([*works, ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                loop.remove_reader(0)
                for task in (*works, ended):
                    task.cancel()
                results = await asyncio.gather(*works, return_exceptions=True)
                self._screen.end_line()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def show(self, items: list[Rendered]) -> None:
        """Show items above the prompt, and the new status."""
        name = short(self.conversation.id)
        self._screen.status = " · ".join((name, self.conversation.status, "/help", self._leaving))
        self._screen.label = self.conversation.label
        self._screen.show(items)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_INTERVAL_S)
            await self.conversation.refresh()
            self.show([])

    def _read_keys(self) -> None:
        data = os.read(0, READ_BYTES)
        if not data:
            self._leave()
            return
        for action in self._screen.editor.feed(data):
            self._act(action)
        self.show([])

    def _act(self, action: Action) -> None:
        match action:
            case Leave():
                self._leave()
            case Suspend():
                with self._screen.given_back():
                    os.kill(0, signal.SIGTSTP)
            case Submit(text):
                self._do(self.conversation.line(text))

    def _do(self, typed: TypedInput | None) -> None:
        match typed:
            case None:
                return
            case TypedInput("help"):
                self.show([Line(line, "dim") for line in HELP])
            case TypedInput("leave"):
                self._leave()
            case TypedInput("unknown"):
                self.show([Line(str(typed.fields["why"]), "bad")])
            case TypedInput("diff"):
                self._actions.put_nowait(self._diff())
            case _:
                self._actions.put_nowait(self.conversation.give(typed))

    async def _diff(self) -> list[Rendered]:
        found = await self.conversation.sessions.diff(self.conversation.id)
        return [*patch_lines(found["patch"])] or [Line("There are no changes.", "dim")]

    async def _run_actions(self) -> None:
        """Run the typed commands in order, and show their results and errors."""
        while True:
            action = await self._actions.get()
            try:
                self.show(await action)
            except HutchError as error:
                self.show([Line(str(error), "bad")])

    def _leave(self) -> None:
        self.left = True
        self._ended.set()
