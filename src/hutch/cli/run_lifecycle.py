"""A run from its prompt to its result: create the session, follow it, and show the summary.

The session belongs to a server or to this process; the output is the same.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, ClassVar, Literal

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.api_client import FAMILIES, Client
from hutch.cli.early_session_request import EarlyRequest
from hutch.cli.interactive_terminal_check import can_prompt
from hutch.cli.render.run_output import JsonView, PlainView
from hutch.cli.render.run_summary import SUMMED_UP, RunSummary
from hutch.cli.render.transcript import Line, Transcript
from hutch.cli.run_wait_and_output import AwaitedRun
from hutch.cli.screens.attach_prompt import AttachPrompt
from hutch.cli.server_requests import short
from hutch.cli.session_client import ServedSessions, SessionClient, open_sessions
from hutch.cli.signals_and_closed_output import ended_by, stop_when_unread
from hutch.domain.errors import BadRequest, HutchError, LimitReached, Unavailable
from hutch.domain.generation_options import Generation
from hutch.domain.no_model_messages import (
    BY_OPTION,
    is_offline_script,
    no_model_message,
    no_model_on_server_message,
)
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.system.fast_imports import load_structlog, without_gc
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS
from hutch.system.terminal_safe_text import one_line, visible

STOP_TIMEOUT_S = 20.0
WARNING_TIMEOUT_S = 10.0  # git may take long in a large repository
Where = Literal["anywhere", "here", "server"]


def run_session(new: NewSession, *, where: Where, as_json: bool, early: EarlyRequest | None = None) -> int:
    """Run a prompt and show it; return the exit code of its outcome.

    With `where="server"`, Ctrl-C detaches and the run continues there; otherwise it stops the run. An `early`
    request has already asked a server for the session.
    """

    async def work(sessions: SessionClient) -> int:
        session = await sessions.create(new)
        following = RunFollower(sessions, session, leaves=where == "server", as_json=as_json)
        following.names_model = bool(new.model)
        return await following.run()

    return open_and(work, where, as_json, early)


def resume_session(
    name: str,
    *,
    limits: RunLimits,
    model: str,
    generation: Generation,
    deliver: bool | None,
    as_json: bool,
) -> int:
    """Resume a run, and show it."""

    async def work(sessions: SessionClient) -> int:
        found = await sessions.find_run(name)
        session = await sessions.get(found["session_id"])
        following = RunFollower(sessions, session, as_json=as_json)
        delivers = bool(session["deliver"]) if deliver is None else deliver
        following.awaited = AwaitedRun(run_id=found["id"], delivers=delivers)
        await following.replay()
        await sessions.resume(found["id"], limits=limits, model=model, generation=generation, deliver=deliver)
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
    """Call `work` with a session client; report errors as JSON if `as_json` is set."""

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


class RunFollower:
    """Follows one run to its end."""

    warns: ClassVar[bool] = True  # about uncommitted files

    def __init__(
        self, sessions: SessionClient, session: dict[str, Any], *, leaves: bool = False, as_json: bool
    ) -> None:
        self.sessions, self.session = sessions, session
        self.awaited = AwaitedRun(delivers=bool(session["deliver"]))
        self.names_model = False  # the user named the model
        self._leaves, self._as_json = leaves, as_json
        self._story = RunSummary(session["id"], session["repository"])
        self._after = 0
        self._is_resumed = False
        self._code: int | None = None
        self._check: asyncio.Future[None] | None = None
        self._warning = ""
        self._show_warning: Callable[[str], None] = lambda warning: None
        self._unread: list[str] = []  # messages that the run has not received

    @property
    def id(self) -> str:
        return str(self.session["id"])

    async def replay(self) -> None:
        """Process earlier entries without showing them."""
        self._is_resumed = True
        head = int(self.session["head"]["seq"])
        async with aclosing(self.sessions.follow(self.id)) as updates:
            async for update in updates:
                if update.entry is not None:
                    self._take(update.entry)
                    if self._after >= head:
                        break
        self._code = None  # an earlier end does not count

    async def run(self) -> int:
        """Show the run; return the exit code."""
        async with AsyncExitStack() as stack:
            came = stack.enter_context(ended_by(*TERMINATION_SIGNALS))
            view = await self._view()
            stack.callback(lambda: self._check and self._check.cancel())
            try:
                has_left = await self._watch(view)
            except BrokenPipeError:  # the reader closed our output
                await self._stop()
                raise
            except LimitReached as error:  # the disk is full
                raise LimitReached(f"{error}{self._resume_hint()}", limit=error.limit) from error
            except asyncio.CancelledError:
                if not came:
                    raise
                has_left = True
            try:
                return await (self._interrupted(view) if has_left else self._end(view))
            except asyncio.CancelledError:  # a second signal ends it immediately
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
        """Show the run to its end; True when the user left before."""
        if isinstance(view, PlainView) and can_prompt(settings.terminal_type()):

            async def take_and_warn(entry: dict[str, Any]) -> bool:
                is_last = self._take(entry)
                await self._warn(entry["event"])
                return is_last

            leaving = "Ctrl-C detaches" if self._leaves else "Ctrl-C stops it"
            attached = AttachPrompt(
                self.sessions, self.session, after=self._after, until=take_and_warn, leaving=leaving
            )
            self._show_warning = lambda warning: attached.show([Line(visible(warning), lead="warning: ")])
            attached.conversation.transcript.hides = SUMMED_UP
            self._unread = attached.conversation.unread
            await attached.run()
            return attached.left
        self._show_warning = view.warn
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
                    await self._warn(update.entry["event"])
                    self._hint(update.entry["event"])
                    if is_last:
                        break
        return False

    def _take(self, entry: dict[str, Any]) -> bool:
        """Process an entry; return whether it is the run's last."""
        self._after = entry["seq"]
        self._story.take(entry["event"])
        self._code = self.awaited.ended(entry["event"])
        return self._code is not None

    async def _warn(self, event: Mapping[str, Any]) -> None:
        """Warn at the start of the run, before a step of the agent is shown, unless that takes long. The
        first request to the model, which is made at the same time, does not wait for this."""
        if event["type"] == "run.started" and self.warns:
            self._check = asyncio.ensure_future(self._check_uncommitted())
            await asyncio.wait([self._check], timeout=WARNING_TIMEOUT_S)

    async def _check_uncommitted(self) -> None:
        with suppress(HutchError):
            self._warning = await self._uncommitted_warning()
        if self._warning:
            self._show_warning(self._warning)

    def _hint(self, event: Mapping[str, Any]) -> None:
        """Say where to answer a question, since it cannot be answered here."""
        unattended = self.session["delivery"].get("unattended")
        if event.get("type") in ("approval.requested", "question.asked") and not unattended:
            sys.stderr.write(
                f"hutch: The agent waits for your answer. Answer with: hutch attach {short(self.id)}\n"
            )

    async def _end(self, view: JsonView | PlainView) -> int:
        story, code = self._story, self._code
        if story.outcome == "failed" and not story.started:  # it never started
            kind = FAMILIES.get(str(story.ended.get("code")), BadRequest)
            raise kind(str(story.ended.get("reason")))
        patch, cut = "", False
        if story.started and story.first != story.last:
            found = await self.sessions.diff(self.id, story.first, story.last)
            patch, cut = found["patch"], found["cut"]
        await self.sessions.settle(story.run_id)
        if self._check is not None:
            await asyncio.wait([self._check], timeout=WARNING_TIMEOUT_S)
        if story.is_complete and not self._leaves:
            await self.sessions.give(self.id, "end", reason="")
        view.end(story, patch, cut=cut, warnings=[self._warning] if self._warning else [])
        if is_offline_script(str(story.started.get("model"))) and not self.names_model:
            is_served = isinstance(self.sessions, ServedSessions)
            raise Unavailable(no_model_on_server_message(BY_OPTION) if is_served else no_model_message())
        return exit_codes.INTERRUPTED if code is None else code

    async def _uncommitted_warning(self) -> str:
        """A warning about uncommitted changes that the run does not include; empty when there are none."""
        session = self.session
        is_here = session["repository"].startswith("/") and not session["forked_from"]
        if not is_here or session["revision"] or session["delivery"].get("uncommitted") or self._is_resumed:
            return ""
        # Imported late: these load the jail.
        with without_gc():
            load_structlog()
            from hutch.app.forges import forges_of
            from hutch.app.workspaces import workspaces_of
            from hutch.flows.uncommitted_files_warning import describe_uncommitted

        loaded = settings.load()
        return await describe_uncommitted(workspaces_of(loaded), forges_of(loaded), session["repository"])

    async def _interrupted(self, view: JsonView | PlainView) -> int:
        if self._leaves:
            sys.stderr.write(
                f"hutch: Detached; the run continues. Return with: hutch attach {short(self.id)}\n"
            )
            return exit_codes.INTERRUPTED
        await self._stop()
        if self._story.change:  # it was too late
            return await self._end(view)
        if isinstance(view, JsonView):
            view.interrupted(self._story.run_id)
        else:
            sys.stderr.write(f"hutch: stopped; nothing was delivered.{self._resume_hint()}\n")
            for text in self._unread:
                sys.stderr.write(
                    f"hutch: the agent did not get your message: {visible(one_line(text, 200))}\n"
                )
        return exit_codes.INTERRUPTED

    def _resume_hint(self) -> str:
        return f" Resume with: hutch resume {self._story.run_id}" if self._story.run_id else ""

    async def _stop(self) -> None:
        """Cancel the run and wait until the log says so. A pull request being opened is completed."""
        if self._leaves or self._code is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.sessions.give(self.id, "cancel")
                await self._wait_for_end()
                await self.sessions.settle(self._story.run_id)

    async def _wait_for_end(self) -> None:
        async with aclosing(self.sessions.follow(self.id, after=self._after)) as updates:
            async for update in updates:
                if update.entry is not None and self._take(update.entry):
                    return
