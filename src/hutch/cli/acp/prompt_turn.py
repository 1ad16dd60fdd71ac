"""One prompt of an editor: from its input to the end of the run, with everything that the editor sees."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from dataclasses import field
from typing import Any, Literal

from acp import RequestError, schema
from acp.interfaces import Client

from hutch.cli.acp.event_translation import ChangedText, EventTranslation
from hutch.cli.acp.helper_plan import HelperPlan
from hutch.cli.acp.permission_question import (
    approval_input,
    approval_options,
    choice_options,
    chosen,
    selected,
)
from hutch.cli.run_wait_and_output import AwaitedRun
from hutch.cli.session_client import SessionClient, Version
from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.domain.no_model_messages import is_offline_script, no_model_message
from hutch.system.lazy_dataclass import dataclass

MAX_DIFF_BYTES = 400_000
FAILED = -32603
StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
LIMITS: Mapping[str, StopReason] = {"turns": "max_turn_requests", "tokens": "max_tokens"}


@dataclass(slots=True)
class EditorSession:
    """A session that an editor has open."""

    id: str
    directory: str
    delivers: bool
    names_model: bool
    shows_terminals: bool = False
    plan: HelperPlan = field(default_factory=HelperPlan)
    after: int = 0  # the last entry that the editor has seen
    turn: "PromptTurn | None" = None
    question: str = ""  # the call that waits for an answer in the chat
    awaited: AwaitedRun | None = None  # the run that asked it


@dataclass(slots=True)
class PromptTurn:
    """The state of one prompt."""

    sessions: SessionClient
    editor: Client
    session: EditorSession
    is_cancelled: bool = False
    was_given: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    _asking: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by call
    _ended: Mapping[str, Any] = field(default_factory=dict)
    _is_offline: bool = False
    _context_tokens: int = 0

    async def run(self, text: str) -> schema.PromptResponse:
        """Give the prompt, or the answer to an open question, and show what follows."""
        session = self.session
        try:
            awaited = await self._give(text)
            self.was_given = True
            if self.is_cancelled:
                await self.cancel()
            await self._follow(awaited)
        finally:
            for task in self._asking.values():
                task.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)
            self.done.set()
        return self._response(session)

    async def cancel(self) -> None:
        """Stop the run; the turn ends when the log says so."""
        self.is_cancelled = True
        if self.was_given:
            await self.sessions.give(self.session.id, "cancel")

    async def _give(self, text: str) -> AwaitedRun:
        session = self.session
        question, session.question = session.question, ""
        if question and session.awaited is not None:
            try:
                await self.sessions.give(session.id, "answer", call_id=question, text=text)
                return session.awaited
            except (Conflict, NotFound):  # it was answered elsewhere, or its run has ended: a new prompt
                pass
        given = await self.sessions.give(session.id, "prompt", text=text)
        return AwaitedRun(input=int(given["seq"]), delivers=session.delivers)

    async def _follow(self, awaited: AwaitedRun) -> None:
        session = self.session
        session.awaited = awaited
        shown = EventTranslation(
            session.directory, shows_terminals=session.shows_terminals, plan=session.plan
        )
        async with aclosing(self.sessions.follow(session.id, after=session.after)) as updates:
            async for update in updates:
                if update.delta is not None:
                    for each in shown.delta(update.delta):
                        await self.editor.session_update(session.id, each)
                if update.entry is None:
                    continue
                session.after, event = update.entry["seq"], update.entry["event"]
                changed = await changed_text(self.sessions, session, update.entry, shown)
                for each in shown.event(event, changed):
                    await self.editor.session_update(session.id, each)
                await self._note(event, shown)
                if awaited.ended(event) is not None or session.question:
                    return

    async def _note(self, event: Mapping[str, Any], shown: EventTranslation) -> None:
        """Ask the user what the event asks, and remember what the response needs."""
        call = str(event.get("call_id") or "")
        match event["type"]:
            case "approval.requested":
                self._ask(call, self._ask_approval(event, shown))
            case "question.asked" if event.get("choices"):
                self._ask(call, self._ask_choice(call, event))
            case "question.asked":
                self.session.question = call
            case "approval.answered" | "question.answered" | "tool.returned":
                if task := self._asking.pop(call, None):
                    task.cancel()
            case "run.started":
                self._is_offline = is_offline_script(str(event.get("model")))
                self._context_tokens = int(event.get("context_tokens") or 0)
            case "model.replied":
                await self._show_usage(event)
            case "run.ended":
                self._ended = event
            case "input.processed" if event.get("refused") and event.get("kind") == "prompt":
                raise RequestError(FAILED, str(event["refused"]))

    async def _show_usage(self, event: Mapping[str, Any]) -> None:
        used = int(event.get("input_tokens") or 0) + int(event.get("output_tokens") or 0)
        if self._context_tokens:
            update = schema.UsageUpdate(
                session_update="usage_update", used=used, size=max(used, self._context_tokens)
            )
            await self.editor.session_update(self.session.id, update)

    def _ask(self, call: str, asking: Coroutine[Any, Any, None]) -> None:
        self._asking[call] = asyncio.ensure_future(asking)

    async def _ask_approval(self, event: Mapping[str, Any], shown: EventTranslation) -> None:
        call = str(event["call_id"])
        title = f"{event.get('tool')}: {event.get('summary')}"
        tool_call = schema.ToolCallUpdate(tool_call_id=call, title=title, status="pending")
        selected_id = await self._selected_option(tool_call, approval_options(event))
        if not self.is_cancelled:  # then the run ends, and its question with it
            kind, fields = approval_input(selected_id, call)
            await self._answer(kind, fields)

    async def _ask_choice(self, call: str, event: Mapping[str, Any]) -> None:
        choices = [str(each) for each in event["choices"]]
        tool_call = schema.ToolCallUpdate(tool_call_id=call, title=str(event.get("text")), status="pending")
        selected_id = await self._selected_option(tool_call, choice_options(choices))
        if self.is_cancelled:
            return
        text = chosen(selected_id, choices)
        if text is None:
            text = "The user gave no choice. Continue without it, or ask in your reply."
        await self._answer("answer", {"call_id": call, "text": text})

    async def _selected_option(
        self, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """The user's choice; None if the user closed the question, or the editor cannot ask it."""
        try:
            return selected(await self.editor.request_permission(self.session.id, tool_call, options))
        except RequestError as error:
            await self._show_note(f"The editor cannot ask you, so nothing is allowed: {error}\n")
            return None

    async def _answer(self, kind: str, fields: dict[str, Any]) -> None:
        try:
            await self.sessions.give(self.session.id, kind, **fields)
        except HutchError as error:  # such as one that was answered elsewhere meanwhile, or by a policy
            await self._show_note(f"Your answer has no effect: {error}\n")

    async def _show_note(self, text: str) -> None:
        note = schema.AgentThoughtChunk(
            session_update="agent_thought_chunk", content=schema.TextContentBlock(type="text", text=text)
        )
        await self.editor.session_update(self.session.id, note)

    def _response(self, session: EditorSession) -> schema.PromptResponse:
        ended = self._ended
        outcome = str(ended.get("outcome") or "")
        if self._is_offline and not session.names_model:
            raise RequestError(FAILED, no_model_message())
        if outcome == "failed":
            raise RequestError(FAILED, str(ended.get("reason") or "The run failed."))
        stop: StopReason = "end_turn"
        if outcome == "cancelled" or (self.is_cancelled and not outcome):
            stop = "cancelled"
        elif outcome == "limit_reached":
            stop = LIMITS.get(str(ended.get("limit")), "max_turn_requests")
        return schema.PromptResponse(stop_reason=stop, usage=_usage(ended) if outcome else None)


def _usage(ended: Mapping[str, Any]) -> schema.Usage:
    given, cached, replied = (
        int(ended.get(name) or 0) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )
    return schema.Usage(
        total_tokens=given + replied,
        input_tokens=given,
        output_tokens=replied,
        cached_read_tokens=cached or None,
    )


async def changed_text(
    sessions: SessionClient, session: EditorSession, entry: Mapping[str, Any], shown: EventTranslation
) -> ChangedText | None:
    """The content of a changed file, for a diff; None if the event is another, or the content is no text."""
    event = entry["event"]
    if event.get("type") != "file.changed" or not event.get("call_id"):
        return None
    texts: list[str | None] = []
    versions: tuple[Version, Version] = ("before", "after")
    for version in versions:
        if event.get(version) is None:
            texts.append(None)
            continue
        try:
            data = await sessions.changed_content(session.id, entry["seq"], version)
            texts.append(data.decode() if len(data) <= MAX_DIFF_BYTES else None)
        except (HutchError, UnicodeDecodeError):  # no longer stored, a directory, or no text
            return None
    before, after = texts
    if event.get("after") is not None and after is None:  # too long for a diff
        return None
    return ChangedText(shown.outside(str(event["path"])), before, after or "")
