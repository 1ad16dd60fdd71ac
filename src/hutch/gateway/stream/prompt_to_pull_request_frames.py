"""Converts the events of a run to the frames of `POST /api/code`.

Pure functions. The number of a frame rises, and clients resume by it: it is the number of
the entry times four, plus the index of the frame among those of the entry. `timestamp`
is in milliseconds since 1970.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import orjson

from hutch.domain import events
from hutch.domain.errors import Unavailable
from hutch.domain.events import AnyEvent
from hutch.domain.log_entry_audience import VisibleEntry
from hutch.domain.no_model_messages import BY_FIELD, is_offline_script, no_model_on_server_message
from hutch.domain.session import QueuedRun
from hutch.system.lazy_dataclass import dataclass

PER_ENTRY = 4
WITH_DIFF = ("done", "tests_failing", "not_delivered", "limit_reached")  # outcomes of runs that leave changes
UNFINISHED = "unfinished"  # the outcome of a response that ends before its run
NO_MODEL = no_model_on_server_message(BY_FIELD)
INPUTS = "/api/v1/sessions/{}/inputs"
ERASED = "The events about the end of this run were erased."
DELIVERY_OUTCOMES = ("proposed", "nothing", "failed")
SENT_FOR_ANY_RUN = events.StepReached | events.ChangeProposed | events.SessionEnded
Frame = dict[str, Any]


@dataclass(slots=True)
class RunFrames:
    """The frames of one run, from its beginning."""

    run_id: str
    is_over: bool = False  # the last frame was returned
    started: bool = False
    working: bool = False  # between the run's start and its end
    outcome: str = ""  # of the run
    change: events.ChangeProposed | None = None
    session_id: str = ""
    seq: int = 0  # of the last entry
    delivers: bool = True  # a delivery follows the run
    stand_in: bool = False  # no model is connected: the offline script ran
    finishing: str = ""  # what the agent wants to finish with
    summary: str = ""  # what it finished with, else what it said last
    finished: bool = False
    tests: Frame | None = None
    usage: Frame | None = None
    result: Frame = field(default_factory=dict)  # of the last frame

    def frames(self, update: VisibleEntry | QueuedRun, *, again: bool = False) -> list[tuple[int, Frame]]:
        """The numbered frames for an entry, or for the run itself at its end.

        With `again`, another attempt to deliver the run follows the entry, as `Lookahead` finds out.
        """
        if self.is_over:
            return []
        if isinstance(update, QueuedRun):
            return self._end_by_row(update)
        event = update.event
        self.session_id, self.seq = update.session_id, update.seq
        if getattr(event, "run_id", None) == self.run_id:
            self.started = True
        frames = self._frames_of(event, again) if self.started or event.type == "session.ended" else []
        return _numbered(update.seq, update.at_ms, frames)

    def _end_by_row(self, run: QueuedRun) -> list[tuple[int, Frame]]:
        """The last frames, from the run's row: the events about its end were erased."""
        self.session_id, self.outcome = run.session_id, run.outcome
        self.summary = self.summary or ERASED
        delivered = run.delivered
        if delivered is not None and delivered.outcome in DELIVERY_OUTCOMES:
            fields = {name: getattr(delivered, name) for name in ("outcome", "reason", "change_id", "url")}
            frames = self._delivered(events.DeliveryEnded(run_id=run.id, **fields), again=False)
        elif run.outcome in ("done", "tests_failing"):
            frames = [self._done(run.outcome, self.summary)]
        else:
            reason = run.reason or ERASED
            frames = [_error(reason), self._done(run.outcome or "failed", reason)]
        return _numbered(self.seq + 1, run.ended_ms, frames)

    def _frames_of(self, event: AnyEvent, again: bool) -> list[Frame]:
        match event:
            case events.StepReached(message=message, step=step):
                return [{"type": "status", "message": message, "step": step}]
            case events.RunStarted() if event.run_id == self.run_id:
                self.working = True
                self.stand_in = is_offline_script(event.model)
                self.delivers = event.deliver
                words = "No model is connected." if self.stand_in else f"Working with {event.model}..."
                return [{"type": "status", "message": words, "step": "working"}]
            case events.ModelReplied() if event.run_id == self.run_id:
                if event.text and not self.finished:
                    self.summary = event.text
                return [{"type": "message", "text": event.text}] if event.text else []
            case events.ToolCalled() if event.run_id == self.run_id:
                input = _input(event.arguments)
                if event.tool == "finish":
                    self.finishing = _summary(input)
                return [{"type": "tool_call", "tool": event.tool, "input": input}]
            case events.ToolReturned() if event.run_id == self.run_id:
                if event.tool == "finish" and event.ok and self.finishing:
                    self.summary, self.finished = self.finishing, True
                return [{"type": "tool_result", "tool": event.tool, "result": event.text, "ok": event.ok}]
            case events.QuestionAsked() if self.working:
                return [self._question(event)]
            case events.ApprovalRequested() if self.working:
                return [self._approval(event)]
            case events.QuestionAnswered() if self.working:
                return [_answered(event.call_id, event.by, text=event.text)]
            case events.ApprovalAnswered() if self.working:
                return [_answered(event.call_id, event.by, allowed=event.allowed)]
            case events.RanTests() if event.run_id == self.run_id:
                names = ("command", "ok", "passed", "failed", "skipped", "reason")
                self.tests = {"type": "test_result", **{name: getattr(event, name) for name in names}}
                return [self.tests]
            case events.ChangeProposed():
                self.change = event
                return []
            case events.RunEnded() if event.run_id == self.run_id:
                self.delivers = self.delivers or again
                return self._ended(event)
            case events.DeliveryEnded() if event.run_id == self.run_id:
                return self._delivered(event, again)
            case events.SessionEnded():
                return [_error(event.reason or "The session was ended."), self._done("failed", event.reason)]
        return []

    def _question(self, event: events.QuestionAsked) -> Frame:
        texts = event.choices or ("",)
        answers: list[Frame] = [{"type": "answer", "call_id": event.call_id, "text": text} for text in texts]
        return {"type": "question", "text": event.text, **self._waits(event.call_id, answers)}

    def _approval(self, event: events.ApprovalRequested) -> Frame:
        answers = [
            {"type": "approve", "call_id": event.call_id, "scope": "once"},
            {"type": "deny", "call_id": event.call_id, "reason": ""},
        ]
        named = {name: getattr(event, name) for name in ("tool", "summary", "rule", "covers")}
        return {"type": "approval", **named, **self._waits(event.call_id, answers)}

    def _waits(self, call_id: str, answers: list[Frame]) -> Frame:
        """How to answer: POST one of the answers to the session's inputs."""
        return {"callId": call_id, "answerUrl": INPUTS.format(self.session_id), "answers": answers}

    def _ended(self, event: events.RunEnded) -> list[Frame]:
        self.usage = {
            "type": "usage",
            "turns": event.turns,
            "inputTokens": event.input_tokens,
            "cachedTokens": event.cached_tokens,
            "outputTokens": event.output_tokens,
            "costUsd": event.cost_usd,
            "durationSeconds": event.duration_s,
        }
        self.outcome, self.working = event.outcome, False
        if self.stand_in and (event.outcome == "done" or event.code == Unavailable.code):
            return [self.usage, _error(NO_MODEL), self._done("failed", NO_MODEL)]
        if event.outcome in ("done", "tests_failing"):
            # The work is delivered next, or the reason is shown why it is not.
            return [self.usage] if self.delivers else [self.usage, self._done(event.outcome, self.summary)]
        reason = event.reason or f"The run ended: {event.outcome}."
        return [self.usage, _error(reason), self._done(event.outcome, reason)]

    def _delivered(self, event: events.DeliveryEnded, again: bool) -> list[Frame]:
        if again:
            return [_error(event.reason)] if event.outcome == "failed" else []
        if event.outcome == "failed" and self.outcome == "tests_failing":
            return [_error(event.reason), self._done(self.outcome, self._and_summary(event.reason))]
        if event.outcome == "failed":
            reason = f"It is done, but not delivered: {event.reason}"
            return [_error(reason), self._done("not_delivered", self._and_summary(reason))]
        if event.outcome == "nothing":
            return [self._done("nothing", self.summary if self.finished else event.reason)]
        pull: Frame = {"type": "pull_request", "url": event.url, "changeId": event.change_id}
        if self.change is not None:
            pull |= {"branch": self.change.branch, "base": self.change.base, "title": self.change.title}
        return [pull, self._done("done", self.summary, url=event.url)]

    def _and_summary(self, reason: str) -> str:
        return f"{reason}\n\n{self.summary}" if self.finished else reason

    def _done(self, outcome: str, message: str, url: str = "") -> Frame:
        self.is_over = True
        self.result = {
            "type": "done",
            "outcome": outcome,
            "url": url or None,
            "message": message,
            "run": self.run_id,
            "session": self.session_id,
        }
        return self.result


def _numbered(seq: int, at_ms: int, frames: Sequence[Frame]) -> list[tuple[int, Frame]]:
    return [(seq * PER_ENTRY + index, {**frame, "timestamp": at_ms}) for index, frame in enumerate(frames)]


@dataclass(slots=True)
class Lookahead:
    """Finds, in one pass over a log, the delivery attempts of a run that were followed by another one.

    Only the last attempt ends a run, and a log may hold several. So the end of an attempt is held back until
    the next attempt, or until the entry that was the newest when reading began. Later entries are passed on
    at once.
    """

    run_id: str
    newest: int  # the number of the newest entry when reading began
    held: list[VisibleEntry] = field(default_factory=list)  # an end, and later entries that may be needed
    skipped: VisibleEntry | None = None  # the last skipped entry: its number counts
    is_requested: bool = False  # another attempt was requested since that end

    def next(self, entry: VisibleEntry) -> list[tuple[VisibleEntry, bool]]:
        """The entries that can be sent now, each with whether another attempt follows."""
        event = entry.event
        is_own = getattr(event, "run_id", None) == self.run_id
        ready: list[tuple[VisibleEntry, bool]] = []
        if is_own and isinstance(event, events.DeliveryEnded):
            ready = self.release(again=True)
        elif is_own and isinstance(event, events.DeliveryRequested | events.RunEnded):
            self.is_requested = bool(self.held) and isinstance(event, events.DeliveryRequested)
        is_end = is_own and isinstance(event, events.DeliveryEnded | events.RunEnded)
        if entry.seq >= self.newest:
            return [*ready, *self.release(), (entry, False)]
        if not self.held and not is_end:
            return [*ready, (entry, False)]
        if is_own or isinstance(event, SENT_FOR_ANY_RUN):
            self.held.append(entry)
        else:
            self.skipped = entry
        return ready

    def release(self, *, again: bool = False) -> list[tuple[VisibleEntry, bool]]:
        """The entries that were held back."""
        again = again or self.is_requested
        ready = [(entry, again and index == 0) for index, entry in enumerate(self.held)]
        if self.skipped and self.skipped.seq > self.held[-1].seq:
            ready.append((self.skipped, False))
        self.held, self.skipped, self.is_requested = [], None, False
        return ready


def start_after(last_id: int) -> int:
    """The number of the entry after which to read, for a client that has seen this frame."""
    return max(0, last_id // PER_ENTRY - 1)


def sse_frame(id: int, frame: Frame) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (id, orjson.dumps(frame))


def sse_closing(message: str, at_ms: int) -> bytes:
    """The stream ends before the run. Without a number, because it is no part of the run."""
    return b"data: %b\n\n" % orjson.dumps({"type": "closing", "message": message, "timestamp": at_ms})


def unseen(frames: Sequence[tuple[int, Frame]], last_id: int) -> list[tuple[int, Frame]]:
    return [(id, frame) for id, frame in frames if id > last_id]


def _input(arguments: str) -> Any:
    try:
        return orjson.loads(arguments)
    except ValueError:
        return arguments


def _summary(input: Any) -> str:
    """The summary in the arguments of finish, which a model wrote: they may have any shape."""
    words = [input.get(name) for name in ("summary", "title")] if isinstance(input, dict) else []
    return next((word.strip() for word in words if isinstance(word, str) and word.strip()), "")


def _answered(call_id: str, by: str, *, allowed: bool | None = None, text: str | None = None) -> Frame:
    return {"type": "answered", "callId": call_id, "by": by, "allowed": allowed, "text": text}


def _error(message: str) -> Frame:
    return {"type": "error", "message": message}
