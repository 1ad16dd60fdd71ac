"""What happened in a session, as lines for people. Nothing here writes or reads.

Entries of the log become lines, pieces of a reply go on where the last one ended. What
was shown of a reply when the line was cut is not shown again with the whole of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hutch.cli.render.command_output import LiveSession
from hutch.cli.render.delivery import NOTHING, delivery_lines
from hutch.system.terminal_text import one_line, visible

Style = Literal["plain", "strong", "dim", "you", "good", "bad", "added", "removed"]
AGENTS_SHELL = "agent"
SHOWN_CHARS = 160  # of one line
ASKS = "ask_user"
SCOPES = {"once": "this once", "session": "for this session", "always": "from now on, always"}
STATES = {
    "run.queued": "queued",
    "run.started": "running",
    "approval.requested": "waiting",
    "question.asked": "waiting",
    "approval.answered": "running",
    "question.answered": "running",
    "model.replied": "running",
    "tool.called": "running",
    "run.ended": "idle",
    "session.prepared": "idle",
    "session.paused": "paused",
    "session.resumed": "queued",
    "session.parked": "parked",
    "session.woken": "idle",
    "session.ended": "ended",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of its own; `lead` stands before the text, and out from it."""

    text: str
    style: Style = "plain"
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that goes on where the last piece ended; with `end` the line ends after it."""

    text: str
    end: bool = False


Shown = Line | Piece


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """What the agent waits for somebody to answer."""

    kind: Literal["approval", "question"]
    call_id: str
    text: str
    covers: tuple[str, ...] = ()


@dataclass(slots=True)
class Transcript:
    """A session as it has been told so far."""

    me: str = ""  # the user's own id
    names: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    doing: str = ""  # what goes on right now, in a word or two
    live_after: int = 0  # entries up to this one were there before anybody watched
    waiting: dict[str, OpenQuestion] = field(default_factory=dict)
    hides: frozenset[str] = frozenset()  # kinds of events that somebody else tells of
    _turn: tuple[str, int] | None = None  # whose pieces are being shown
    _shown: str = ""
    _torn: bool = True  # the reply under way may have begun before
    _live: LiveSession = field(default_factory=LiveSession)
    _delivers: bool = True  # what the run did can be handed over once more; a review cannot

    def entry(self, entry: Mapping[str, Any]) -> list[Shown]:
        """What is to be shown of an entry."""
        event = entry["event"]
        kind = str(event.get("type", ""))
        if event.get("withheld"):
            return []
        self.state = STATES.get(kind, self.state)
        self._note(kind, event)
        if kind in self.hides:
            return []
        if event.get("erased"):
            return [Line(f"({kind}: erased)", "dim")]
        if kind == "model.replied":
            shown = list(self._replied(str(event.get("text", ""))))
        elif kind == "shell.printed":
            shown = list(self._printed(event))
        elif kind == "tool.returned" and event.get("tool") != ASKS:
            shown = list(_result(*self._live.rest(str(event.get("text", ""))), ok=bool(event.get("ok"))))
        else:
            shown = list(_lines(kind, event, self._name(event)))
        if kind == "delivery.ended" and event.get("outcome") == "failed" and self._delivers:
            name, command = delivery_lines(visible(str(event.get("run_id"))), event)[-1]
            shown.append(Line(command, lead=f"{name}: "))
        if entry["seq"] > self.live_after:
            self._torn = False
        return shown

    def delta(self, delta: Mapping[str, Any]) -> list[Shown]:
        """What is to be shown of a piece of a reply."""
        turn = (str(delta.get("run_id")), int(delta.get("turn") or 0))
        kind, text = delta.get("kind"), str(delta.get("text") or "")
        self.state = "running"
        if turn != self._turn:
            self._turn, self._shown = turn, ""
        match kind:
            case "again":
                void, self._shown = self._shown, ""
                return [Line("the model broke off; it is asked again", "dim")] if void else []
            case "progress":
                self.state, self.doing = "starting", text
            case "thinking":
                self.doing = "thinking"
            case "call":
                self.doing = visible(str(delta.get("tool") or ""))
            case "text":
                self.doing = "replying"
                if not self._torn:
                    self._shown += text
                    return [Piece(text)]
        return []

    def cut(self) -> None:
        """The line was cut: pieces of the reply under way may be missing from now on."""
        self._torn = True

    def _replied(self, text: str) -> Iterator[Shown]:
        shown, self._shown, self._turn = self._shown, "", None
        if shown and text.startswith(shown):
            yield Piece(text[len(shown) :], end=True)
            return
        if shown:
            yield Piece("", end=True)
            yield Line("not all of that came; the whole of it:", "dim")
        if text.strip():
            yield Piece(text.rstrip("\n"), end=True)

    def _printed(self, event: Mapping[str, Any]) -> Iterator[Shown]:
        """What the agent's command prints right now; people's own commands are shown to who runs them."""
        if event.get("shell") == AGENTS_SHELL and not event.get("background_id"):
            lines = self._live.add(str(event.get("stream")), str(event.get("text", "")))
            yield from _result(lines, 0, ok=True)

    def _note(self, kind: str, event: Mapping[str, Any]) -> None:
        """Who waits for what, and what goes on."""
        call_id = str(event.get("call_id", ""))
        if kind == "run.started":
            self._delivers = bool(event.get("deliver", True))
        match kind:
            case "approval.requested":
                text = visible(f"{event.get('tool')}: {event.get('summary')}")
                covers = tuple(visible(str(each)) for each in event.get("covers") or ())
                self.waiting[call_id] = OpenQuestion("approval", call_id, text, covers)
            case "question.asked":
                self.waiting[call_id] = OpenQuestion("question", call_id, str(event.get("text")))
            case "approval.answered" | "question.answered" | "tool.returned":
                self.waiting.pop(call_id, None)
            case "run.ended" | "run.started" | "session.ended":
                self.waiting.clear()
        if kind == "tool.called":
            self._live.begin()
            self.doing = visible(str(event.get("tool", "")))
        elif kind in ("tool.returned", "run.started"):
            self.doing = "thinking"
        elif kind in ("approval.answered", "question.answered"):
            self.doing = "at work"
        elif self.state != "running":
            self.doing = ""

    def _name(self, event: Mapping[str, Any]) -> str:
        by = str(event.get("by") or event.get("owner") or "")
        return "you" if by == self.me or not by else visible(self.names.get(by, by))


def _lines(kind: str, event: Mapping[str, Any], who: str) -> Iterator[Shown]:
    def text(name: str, *, lines: bool = False) -> str:
        return visible(str(event.get(name) or ""), lines=lines)

    match kind:
        case "run.queued":
            yield Line(text("prompt", lines=True), "you", f"{who}: ")
        case "message.sent" if event.get("author") == "user":
            yield Line(text("text", lines=True), "you", f"{who}: ")
        case "message.sent":
            yield Line(text("text", lines=True), "plain" if event.get("author") == "agent" else "dim")
        case "tool.called" if event.get("tool") == ASKS:
            return  # the question and its answer are told by themselves
        case "tool.called":
            yield Line(arguments(str(event.get("arguments", ""))), "plain", f"{text('tool')} ")
        case "approval.requested":
            yield Line(f"{text('tool')}: {text('summary')}  ({text('rule')})", "plain", "may it? ")
        case "approval.answered":
            said = f"allowed it, {SCOPES.get(text('scope'), '')}" if event.get("allowed") else "said no"
            yield Line(f"{who} {said}", "dim")
        case "question.asked":
            yield Line(text("text", lines=True), "plain", "the agent asks: ")
        case "question.answered":
            yield Line(text("text", lines=True), "you", f"{who}: ")
        case "tests.run" if event.get("reason"):
            yield Line(f"{text('reason')}  ({text('command')})", "bad", "tests: ")
        case "tests.run":
            counts = f"{event.get('passed', 0)} passed, {event.get('failed', 0)} failed"
            yield Line(f"{counts}  ({text('command')})", "good" if event.get("ok") else "bad", "tests: ")
        case "delivery.requested":
            known = ", though its tests fail" if event.get("failing") else ""
            yield Line(f"{who} wants it delivered{known}", "dim")
        case "change.proposed":
            yield Line(text("title"), "strong", f"change {text('change_id')}: ")
            yield Line(f"branch {text('branch')}; look at it: hutch changes diff {text('change_id')}", "dim")
        case "delivery.ended" if event.get("outcome") == "failed":
            yield Line(text("reason", lines=True), "bad", "not delivered: ")
        case "delivery.ended" if event.get("outcome") == "nothing":
            yield Line(NOTHING)
        case "delivery.ended" if event.get("outcome") == "proposed":
            if text("reason"):
                yield Line(text("reason"), lead="note: ")
            if text("url").startswith("http"):
                yield Line(text("url"), "strong", "pull request: ")
        case "file.changed" if not event.get("call_id"):
            yield Line(f"{who} {text('kind')} {text('path')}", "dim")
        case "egress.attempted" if not event.get("allowed"):
            yield Line(f"no way out to {text('host')}:{event.get('port')}: {text('reason')}", "dim")
        case "terminal.opened":
            yield Line(f"{who} opened a terminal", "dim")
        case "run.ended":
            yield from _ended(event)
        case _ if told := _of_session(kind, event, who):
            yield Line(told, "dim")


def _of_session(kind: str, event: Mapping[str, Any], who: str) -> str:
    def text(name: str) -> str:
        return one_line(str(event.get(name) or ""), SHOWN_CHARS)

    match kind:
        case "step.reached":
            return text("message")
        case "run.resumed":
            return f"resumed by {who}"
        case "session.prepared":
            source = f" of {text('source')} at {text('commit')[:12]}" if event.get("source") else ""
            return f"the workspace{source} is ready"
        case "run.started":
            why = f" ({reason})" if (reason := text("model_reason")) else ""
            return f"{text('persona')} takes it up, with {text('model')}{why}"
        case "context.compacted":
            return "the conversation was made shorter"
        case "session.paused":
            return f"paused by {who}"
        case "session.resumed":
            return f"resumed by {who}"
        case "session.parked":
            return "parked: the jail is closed, the files are kept"
        case "session.rewound":
            files = f" (snapshot {number})" if (number := event.get("snapshot")) else ""
            return f"{who} undid the last run: files{files} and conversation are as they were before it"
        case "events.omitted":
            count = f"{number} events are" if (number := event.get("count", 0)) else "Events may be"
            return f"{count} missing here: {text('reason')}"
        case "session.ended":
            return f"the session has ended{f': {why}' if (why := text('reason')) else ''}"
    return ""


def _result(lines: Sequence[str], more: int, *, ok: bool) -> Iterator[Line]:
    mark = "" if ok else "! "
    for line in lines:
        cut = line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}…"
        yield Line(f"  {mark}{visible(cut)}", "dim")
    if more:
        yield Line(f"  … {more} more lines", "dim")


def _ended(event: Mapping[str, Any]) -> Iterator[Line]:
    outcome = str(event.get("outcome") or "").replace("_", " ")
    reason = visible(str(event.get("reason") or ""))
    if outcome != "done":
        yield Line(reason, "bad", f"{visible(outcome)}: " if reason else visible(outcome))
    cost = event.get("cost_usd")
    price = f", ${cost:.4f}" if isinstance(cost, int | float) else ""
    tokens = f"{event.get('input_tokens', 0):,} tokens in, {event.get('output_tokens', 0):,} out"
    if event.get("turns"):
        took = f"{float(event.get('duration_s') or 0):.1f} s"
        done = "done: " if outcome == "done" else ""
        yield Line(f"{done}{event['turns']} turns, {tokens}{price}, {took}", "dim")


def arguments(text: str) -> str:
    """What a tool is given, in a line."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = text
    if isinstance(given, dict) and [*map(type, given.values())] == [str]:
        text = next(iter(given.values()))
    elif isinstance(given, dict):
        pairs = (
            (name, value if isinstance(value, str) else json.dumps(value)) for name, value in given.items()
        )
        text = "  ".join(f"{name}={value}" for name, value in pairs)
    return one_line(text.replace("\n", " ⏎ "), SHOWN_CHARS)
