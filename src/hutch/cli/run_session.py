"""A run, from its prompt to what came of it: opened, followed and summed up in one place.

The session is a server's or lives in this process; what is shown is the same.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Literal

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.client import FAMILIES, Client
from hutch.cli.early_request import EarlyRequest
from hutch.cli.render.run_output import JsonView, PlainView
from hutch.cli.render.run_summary import SUMMED_UP, Story
from hutch.cli.render.transcript import Line, Transcript
from hutch.cli.run_wait import AwaitedRun
from hutch.cli.screens.attach_prompt import Attached
from hutch.cli.server_requests import short
from hutch.cli.session_client import ServedSessions, SessionClient, open_sessions
from hutch.cli.signals import ended_by, stop_when_unread
from hutch.cli.terminal_check import can_prompt
from hutch.domain.errors import BadRequest, HutchError, LimitReached, Unavailable
from hutch.domain.no_model import BY_OPTION, is_offline_script, no_model_message, no_model_on_server_message
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.system.signals import TERMINATION_SIGNALS

STOP_S = 20.0  # for a run to end after somebody has stopped it
Where = Literal["anywhere", "here", "server"]


def run_session(wanted: NewSession, *, where: Where, as_json: bool, early: EarlyRequest | None = None) -> int:
    """Work on a prompt and show it; the exit code says how it ended.

    Whoever asks for the `server` may leave: the run goes on there. Elsewhere Ctrl-C stops it. An `early`
    request has asked a server for the session already.
    """

    async def work(sessions: SessionClient) -> int:
        session = await sessions.create(wanted)
        following = Following(sessions, session, leaves=where == "server", as_json=as_json)
        following.names_model = bool(wanted.model)
        return await following.run()

    return open_and(work, where, as_json, early)


def resume_session(name: str, *, limits: RunLimits, model: str, deliver: bool | None, as_json: bool) -> int:
    """Let a run go on, and show it."""

    async def work(sessions: SessionClient) -> int:
        found = await sessions.find_run(name)
        session = await sessions.get(found["session_id"])
        following = Following(sessions, session, as_json=as_json)
        delivers = bool(session["deliver"]) if deliver is None else deliver
        following.wanted = AwaitedRun(run_id=found["id"], delivers=delivers)
        await following.replay()
        await sessions.resume(found["id"], limits=limits, model=model, deliver=deliver)
        following.session = await sessions.get(session["id"])
        following.names_model = True
        return await following.run()

    return open_and(work, "anywhere", as_json)


def open_and(
    work: Callable[[SessionClient], Awaitable[int]],
    where: Where,
    as_json: bool,
    early: EarlyRequest | None = None,
) -> int:
    """Do something with sessions; errors are told as JSON where that is wanted."""

    async def run() -> int:
        if where == "server":
            async with Client() as client:
                return await work(ServedSessions(client, early))
        async with open_sessions(here=where == "here", early=early) as sessions:
            return await work(sessions)

    try:
        return asyncio.run(run())
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)


class Following:
    """Somebody who watches one run, to its end."""

    def __init__(
        self, sessions: SessionClient, session: dict[str, Any], *, leaves: bool = False, as_json: bool
    ) -> None:
        self.sessions, self.session = sessions, session
        self.wanted = AwaitedRun(delivers=bool(session["deliver"]))
        self.names_model = False  # whoever started it has named the model
        self._leaves, self._as_json = leaves, as_json
        self._story = Story(session["id"], session["repository"])
        self._after = 0
        self._is_resumed = False
        self._code: int | None = None
        self._warning: asyncio.Task[str] | None = None

    @property
    def id(self) -> str:
        return str(self.session["id"])

    async def replay(self) -> None:
        """Take note of what happened before, and show none of it."""
        self._is_resumed = True
        head = int(self.session["head"]["seq"])
        async with aclosing(self.sessions.follow(self.id)) as updates:
            async for update in updates:
                if update.entry is not None:
                    self._take(update.entry)
                    if self._after >= head:
                        break
        self._code = None  # an end before this is none of what is wanted now

    async def run(self) -> int:
        """Show the run; the exit code."""
        async with AsyncExitStack() as stack:
            came = stack.enter_context(ended_by(*TERMINATION_SIGNALS))
            view = await self._view()
            stack.callback(lambda: self._warning and self._warning.cancel())
            try:
                has_left = await self._watch(view)
            except BrokenPipeError:  # nobody reads what is shown
                await self._stop()
                raise
            except LimitReached as error:  # the disk is full
                raise LimitReached(f"{error}{self._way_on()}", limit=error.limit) from error
            except asyncio.CancelledError:
                if not came:
                    raise
                has_left = True
            try:
                return await (self._interrupted(view) if has_left else self._end(view))
            except asyncio.CancelledError:  # by a second signal: at once
                if not came:
                    raise
                return exit_codes.INTERRUPTED

    async def _view(self) -> JsonView | PlainView:
        if self._as_json:
            return JsonView(self._story)
        me, names = await self.sessions.names(self.session)
        view = PlainView(Transcript(me, names, hides=SUMMED_UP))
        if not can_prompt(settings.terminal_type()):
            view.show([Line(f"session {self.id}", "dim")])
        return view

    async def _watch(self, view: JsonView | PlainView) -> bool:
        """Show what happens, to the end of the run; True when whoever watches has left before that."""
        if isinstance(view, PlainView) and can_prompt(settings.terminal_type()):
            leaving = "Ctrl-C leaves" if self._leaves else "Ctrl-C stops it"
            attached = Attached(
                self.sessions, self.session, after=self._after, until=self._take, leaving=leaving
            )
            attached.talk.transcript.hides = SUMMED_UP
            await attached.run()
            return attached.left
        async with (
            stop_when_unread(),
            aclosing(self.sessions.follow(self.id, after=self._after)) as updates,
        ):
            async for update in updates:
                if update.delta is not None:
                    view.delta(update.delta)
                if update.entry is not None:
                    is_last = self._take(update.entry)
                    view.entry(update.entry)
                    self._hint(update.entry["event"])
                    if is_last:
                        break
        return False

    def _take(self, entry: dict[str, Any]) -> bool:
        """Take note of an entry; whether it is the last one of the run."""
        self._after = entry["seq"]
        self._story.take(entry["event"])
        if entry["event"]["type"] == "model.replied":
            self._look_for_uncommitted()
        self._code = self.wanted.ended(entry["event"])
        return self._code is not None

    def _hint(self, event: Mapping[str, Any]) -> None:
        """Nobody can answer here: say where."""
        unattended = self.session["delivery"].get("unattended")
        if event.get("type") in ("approval.requested", "question.asked") and not unattended:
            sys.stderr.write(f"hutch: The agent waits for you. Answer it: hutch attach {short(self.id)}\n")

    async def _end(self, view: JsonView | PlainView) -> int:
        story, code = self._story, self._code
        if story.outcome == "failed" and not story.started:  # it never began
            kind = FAMILIES.get(str(story.ended.get("code")), BadRequest)
            raise kind(str(story.ended.get("reason")))
        patch, cut = "", False
        if story.started and story.first != story.last:
            found = await self.sessions.diff(self.id, story.first, story.last)
            patch, cut = found["patch"], found["cut"]
        await self.sessions.settle(story.run_id)
        if story.is_over and not self._leaves:
            await self.sessions.give(self.id, "end", reason="")
        view.end(story, patch, cut=cut, warnings=await self._warnings())
        if is_offline_script(str(story.started.get("model"))) and not self.names_model:
            is_served = isinstance(self.sessions, ServedSessions)
            raise Unavailable(no_model_on_server_message(BY_OPTION) if is_served else no_model_message())
        return exit_codes.INTERRUPTED if code is None else code

    def _look_for_uncommitted(self) -> "asyncio.Task[str]":
        """Begin to look, once. Not before the model was asked: a jail for git would delay that."""
        if self._warning is None:
            self._warning = asyncio.ensure_future(self._left_out())
        return self._warning

    async def _left_out(self) -> str:
        """What is changed in the repository and not committed, where the run leaves that out."""
        wanted = self.session
        is_here = wanted["repository"].startswith("/") and not wanted["forked_from"]
        if not is_here or wanted["revision"] or wanted["delivery"].get("uncommitted") or self._is_resumed:
            return ""
        # These bring the jail along.
        from hutch.app.forges import forges_of
        from hutch.app.workspaces import workspaces_of
        from hutch.flows.uncommitted import describe_uncommitted

        loaded = settings.load()
        return await describe_uncommitted(workspaces_of(loaded), forges_of(loaded), wanted["repository"])

    async def _warnings(self) -> list[str]:
        with suppress(HutchError):
            return list(filter(None, [await self._look_for_uncommitted()]))
        return []

    async def _interrupted(self, view: JsonView | PlainView) -> int:
        if self._leaves:
            sys.stderr.write(f"hutch: It goes on. Come back: hutch attach {short(self.id)}\n")
            return exit_codes.INTERRUPTED
        await self._stop()
        if self._story.change:  # it was too late
            return await self._end(view)
        if isinstance(view, JsonView):
            view.interrupted(self._story.run_id)
        else:
            sys.stderr.write(f"hutch: stopped; nothing was delivered.{self._way_on()}\n")
        return exit_codes.INTERRUPTED

    def _way_on(self) -> str:
        return f" Go on with: hutch resume {self._story.run_id}" if self._story.run_id else ""

    async def _stop(self) -> None:
        """Stop the run, and wait until the log says so. What is being opened for review is seen through."""
        if self._leaves or self._code is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self.sessions.give(self.id, "cancel")
                await self._wait_for_end()
                await self.sessions.settle(self._story.run_id)

    async def _wait_for_end(self) -> None:
        async with aclosing(self.sessions.follow(self.id, after=self._after)) as updates:
            async for update in updates:
                if update.entry is not None and self._take(update.entry):
                    return
