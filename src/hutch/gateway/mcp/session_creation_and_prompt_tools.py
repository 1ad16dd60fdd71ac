"""Tools that let another agent use this one: open a session, prompt, wait, answer questions."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from hutch.domain import events
from hutch.domain.inputs import Answer, Approve, Deny, Prompt
from hutch.domain.session import Session
from hutch.flows import sessions as flow
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionArguments, SessionTool
from hutch.gateway.request_and_response_bodies import MAX_SIZE, Out
from hutch.gateway.rest.sessions import NewSessionIn, new_session
from hutch.sessions.interface import Delta
from hutch.store.sessions import Sessions
from hutch.system.lazy_dataclass import dataclass

MAX_WAIT_S = 600
CallId = Annotated[str, Field(min_length=1, max_length=200)]


class CreateSessionArguments(NewSessionIn):
    pass


class PromptArguments(SessionArguments):
    text: str = Field(min_length=1, max_length=200_000)


class WaitArguments(SessionArguments):
    after: int = Field(
        0, ge=0, le=MAX_SIZE, description="`last_event` of create_session, send_prompt or the last wait."
    )
    timeout_s: float = Field(60, ge=0, le=MAX_WAIT_S)


class ApprovalArguments(SessionArguments):
    call_id: CallId
    allow: bool
    scope: Literal["once", "session", "always"] = "once"
    reason: str = Field("", max_length=1000, description="Why it is refused, for the agent.")


class AnswerArguments(SessionArguments):
    call_id: CallId
    text: str = Field(min_length=1, max_length=200_000)


class CreatedOut(Out):
    """A new session."""

    session_id: str
    state: str
    last_event: int


class SentOut(Out):
    """An input that was accepted, and the last event before it."""

    seq: int
    last_event: int = 0


class QuestionOut(Out):
    """A question of the agent, or a tool call that waits for an approval."""

    kind: Literal["approval", "question"]
    call_id: str
    text: str
    tool: str = ""
    choices: list[str] = Field(default=[], description="Answers to choose from; another is allowed too.")


class WaitedOut(Out):
    """A session after a wait: a run has ended, the agent asks something, or the time is over."""

    state: str
    ended: bool = Field(description="A run has ended since `after`, and none is going on.")
    outcome: str
    reason: str
    title: str = Field(description="Of the work, as the agent reports it.")
    summary: str
    reply: str = Field(description="The agent's last text.")
    questions: list[QuestionOut] = Field(description="To be answered by answer_approval or answer_question.")
    last_event: int


@dataclass(slots=True)
class _Watched:
    """The state of a session's runs, from its events."""

    last_event: int
    outcome: str = ""
    reason: str = ""
    title: str = ""
    summary: str = ""
    reply: str = ""
    is_running: bool = False
    has_ended: bool = False
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def apply(self, event: events.AnyEvent, seq: int) -> None:
        self.last_event = seq
        match event:
            case events.RunQueued() | events.RunStarted() | events.RunResumed():
                self.is_running, self.has_ended = True, False
            case events.RunEnded():
                self.is_running, self.has_ended = False, True
                self.outcome, self.reason = event.outcome, event.reason
                self.questions.clear()
            case events.ToolCalled(tool="finish"):
                self.title, self.summary = _conclusion(event.arguments)
            case events.ModelReplied(text=text) if text.strip():
                self.reply = text
            case events.ApprovalRequested():
                asked: dict[str, Any] = {"kind": "approval", "text": event.summary, "tool": event.tool}
                self.questions[event.call_id] = {**asked, "call_id": event.call_id}
            case events.QuestionAsked():
                asked = {"kind": "question", "text": event.text, "choices": list(event.choices)}
                self.questions[event.call_id] = {**asked, "call_id": event.call_id}
            case events.ApprovalAnswered(call_id=id) | events.QuestionAnswered(call_id=id):
                self.questions.pop(id, None)

    @property
    def is_due(self) -> bool:
        """True if the caller has something to do."""
        return bool(self.questions) or (self.has_ended and not self.is_running)


def _conclusion(arguments: str) -> tuple[str, str]:
    """The title and summary with which the agent finishes; the model wrote them, perhaps not as JSON."""
    try:
        args = json.loads(arguments)
    except (ValueError, RecursionError):
        return "", ""
    found = [args.get(name, "") if isinstance(args, dict) else "" for name in ("title", "summary")]
    title, summary = (each if isinstance(each, str) else "" for each in found)
    return title, summary


async def create_session(call: Call, args: CreateSessionArguments) -> Any:
    session = await flow.create(call.server.services, call.caller, await asyncio.to_thread(new_session, args))
    return {"session_id": session.id, "state": session.state, "last_event": 0}


async def send_prompt(call: Call, args: PromptArguments) -> Any:
    services = call.server.services
    session = await flow.allowed(services, call.caller, args.session_id)
    head = await services.log.head(session.id)
    accepted = await flow.give(services, call.caller, session.id, Prompt(text=args.text))
    return {"seq": accepted.seq, "last_event": head.seq}


async def wait(call: Call, args: WaitArguments) -> Any:
    services = call.server.services
    session = await flow.allowed(services, call.caller, args.session_id)
    watched = _Watched(args.after)
    try:
        async with asyncio.timeout(args.timeout_s):
            await _watch(call, session, watched)
    except TimeoutError:
        pass  # the answer says how far it is
    state = (await Sessions(services.rows).get(session.id)).state
    return {
        "state": state,
        "ended": watched.has_ended and not watched.is_running,
        "outcome": watched.outcome,
        "reason": watched.reason,
        "title": watched.title,
        "summary": watched.summary,
        "reply": watched.reply,
        "questions": list(watched.questions.values()),
        "last_event": watched.last_event,
    }


async def _watch(call: Call, session: Session, watched: _Watched) -> None:
    """Apply events until the caller has something to do; earlier events may have been dealt with already."""
    services = call.server.services
    reader = await flow.reader_of(services, call.caller, session)
    newest = (await services.log.head(session.id)).seq
    async with aclosing(services.host.follow(session.id, reader, after=watched.last_event)) as updates:
        async for update in updates:
            if not isinstance(update, Delta):
                watched.apply(update.event, update.seq)
                if update.seq >= newest and watched.is_due:
                    return


async def answer_approval(call: Call, args: ApprovalArguments) -> Any:
    answer = (
        Approve(call_id=args.call_id, scope=args.scope)
        if args.allow
        else Deny(call_id=args.call_id, reason=args.reason)
    )
    return {"seq": (await flow.give(call.server.services, call.caller, args.session_id, answer)).seq}


async def answer_question(call: Call, args: AnswerArguments) -> Any:
    answer = Answer(call_id=args.call_id, text=args.text)
    return {"seq": (await flow.give(call.server.services, call.caller, args.session_id, answer)).seq}


RUN_TOOLS = (
    SessionTool(
        "create_session",
        "Open a session",
        "Open a session on a repository, or an empty one, and start its agent with a prompt if you give one.",
        CreateSessionArguments,
        CreatedOut,
        create_session,
    ),
    SessionTool(
        "send_prompt",
        "Prompt the agent",
        "Start the session's agent on a task. Use wait for the result.",
        PromptArguments,
        SentOut,
        send_prompt,
    ),
    SessionTool(
        "wait",
        "Wait for the agent",
        "Wait until the session's agent has finished or asks something, and read its last text.",
        WaitArguments,
        WaitedOut,
        wait,
        True,
    ),
    SessionTool(
        "answer_approval",
        "Answer an approval",
        "Allow or refuse a tool call that the session's agent may make only with an approval.",
        ApprovalArguments,
        SentOut,
        answer_approval,
    ),
    SessionTool(
        "answer_question",
        "Answer a question",
        "Answer a question of the session's agent.",
        AnswerArguments,
        SentOut,
        answer_question,
    ),
)
