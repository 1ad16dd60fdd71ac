"""Renders the events of a session as readable lines. Does no input or output.

Entries of the log become lines; parts of a reply continue where the last one ended. The whole reply, which
follows its parts, does not repeat what was already shown.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from hutch.cli.render.approval_answer import answer_text
from hutch.cli.render.debugger_event_lines import debug_note
from hutch.cli.render.delivery_result import NOTHING, delivery_lines, next_steps, page_of
from hutch.cli.render.dependency_event_lines import environment_note
from hutch.cli.render.helper_agent_event_lines import helper_note, tries_lines
from hutch.cli.render.live_command_output import LiveOutput
from hutch.cli.render.session_option_change_text import change_lines
from hutch.cli.render.test_results import comparison_of, counts_of, failed_cases, missing_of, place_of
from hutch.domain.current_actor_and_author import AGENT
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line, visible

Style = Literal["plain", "strong", "dim", "you", "good", "bad", "added", "removed"]
AGENTS_SHELL = "agent"
MAX_LINE_CHARS = 160
MAX_STEP_CHARS = 2000
MAX_FAILED_TESTS = 10
ASKS = "ask_user"
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
    """A separate line; `lead` precedes the text in bold."""

    text: str
    style: Style = "plain"
    lead: str = ""


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """A part of a reply that continues where the last part ended; with `end` the line ends after it."""

    text: str
    end: bool = False


Rendered = Line | ReplyPart


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An approval or a question that the agent waits for."""

    kind: Literal["approval", "question"]
    call_id: str
    text: str
    covers: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class Transcript:
    """The state of a session, as far as it was rendered."""

    me: str = ""  # the user's own id
    names: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    doing: str = ""  # the current activity, in a word or two
    live_after: int = 0  # entries up to this one are older than the connection
    waiting: dict[str, OpenQuestion] = field(default_factory=dict)
    hides: frozenset[str] = frozenset()  # event types that the caller shows itself
    _turn: tuple[str, int] | None = None  # the turn whose reply is being shown
    _shown: str = ""
    _is_partial: bool = True  # the beginning of the current reply may be missing
    _resumed_from: str = ""  # shown before the connection broke; the reply is sent again from its beginning
    _live: LiveOutput = field(default_factory=LiveOutput)
    _delivers: bool = True  # the run's work can be delivered again; a review cannot

    def entry(self, entry: Mapping[str, Any]) -> list[Rendered]:
        """Render an entry."""
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
            self._is_partial = False
        return shown

    def delta(self, delta: Mapping[str, Any]) -> list[Rendered]:
        """Render a part of a reply."""
        if delta.get("kind") == "tests":  # not about the agent
            return []
        turn = (str(delta.get("run_id")), int(delta.get("turn") or 0))
        kind, text = delta.get("kind"), str(delta.get("text") or "")
        self.state = "running"
        if turn != self._turn:
            self._turn, self._shown = turn, ""
        match kind:
            case "again":
                void, self._shown, self.doing = self._shown, "", "retrying"
                why = visible(text) or "retrying"
                return [Line(f"the reply was interrupted: {why}" if void else why, "dim")]
            case "resumed":
                self._resumed_from, self._shown, self._is_partial = self._shown, "", False
            case "progress":
                self.state, self.doing = "starting", text
            case "thinking":
                self.doing = "thinking"
            case "call":
                self.doing = visible(str(delta.get("tool") or ""))
            case "text":
                self.doing = "replying"
                if not self._is_partial:
                    self._shown += text
                    shown, self._resumed_from = self._resumed_from, ""
                    return [ReplyPart(text.removeprefix(shown))]
        return []

    def cut(self) -> None:
        """The connection broke: parts of the current reply may be missing from now on."""
        self._is_partial = True

    def _replied(self, text: str) -> Iterator[Rendered]:
        shown, self._shown, self._turn = self._shown, "", None
        if shown and text.startswith(shown):
            yield ReplyPart(text[len(shown) :], end=True)
            return
        if shown:
            yield ReplyPart("", end=True)
            yield Line("the reply above is incomplete; here is the whole reply:", "dim")
        if text.strip():
            yield ReplyPart(text.rstrip("\n"), end=True)

    def _printed(self, event: Mapping[str, Any]) -> Iterator[Rendered]:
        """Render live output of the agent's command; users see the output of their own commands directly."""
        if event.get("shell") == AGENTS_SHELL and not event.get("background_id"):
            lines = self._live.add(str(event.get("stream")), str(event.get("text", "")))
            yield from _result(lines, 0, ok=True)

    def _note(self, kind: str, event: Mapping[str, Any]) -> None:
        """Update the open questions and the current activity."""
        call_id = str(event.get("call_id", ""))
        if kind == "run.started":
            self._delivers = bool(event.get("deliver", True))
        match kind:
            case "approval.requested":
                text = visible(f"{event.get('tool')}: {event.get('summary')}")
                covers = tuple(visible(str(each)) for each in event.get("covers") or ())
                self.waiting[call_id] = OpenQuestion("approval", call_id, text, covers)
            case "question.asked":
                self.waiting[call_id] = OpenQuestion(
                    "question", call_id, str(event.get("text")), choices=tuple(event.get("choices", ()))
                )
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
            self.doing = "working"
        elif self.state != "running":
            self.doing = ""

    def _name(self, event: Mapping[str, Any]) -> str:
        by = str(event.get("by") or event.get("owner") or "")
        if not by and event.get("type") in ("file.changed", "files.changed"):
            possible = [
                visible(self.names.get(str(each), str(each))) for each in event.get("possible_authors") or ()
            ]
            return " or ".join(possible) or "someone"
        return "you" if by == self.me or not by else visible(self.names.get(by, by))


def _lines(kind: str, event: Mapping[str, Any], who: str) -> Iterator[Rendered]:
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
            return  # the question and its answer have events of their own
        case "tool.called":
            yield Line(arguments(str(event.get("arguments", ""))), "plain", f"{text('tool')} ")
        case "approval.requested":
            lead = f"Allow helper {text('helper')[-6:]} " if event.get("helper") else "Allow "
            yield Line(f"{text('tool')}: {text('summary')}?  ({text('rule')})", "plain", lead)
        case "approval.answered":
            yield Line(f"{who} {answer_text(event)}", "dim")
        case "approval.extended":
            yield Line(f"{who} allowed it for this session", "dim")
        case "question.asked":
            yield Line(text("text", lines=True), "plain", "the agent asks: ")
            choices = enumerate(event.get("choices", ()), start=1)
            yield from (Line(one_line(str(each), 200), "plain", f"  {number}  ") for number, each in choices)
        case "question.answered":
            yield Line(text("text", lines=True), "you", f"{who}: ")
        case "tests.started" if event.get("cause") != "tool":
            yield Line(f"{who} runs tests: {text('command')}", "dim")
        case "tests.run":
            yield from _tests(event, text("command"))
        case "delivery.requested":
            yield Line(f"{who} requested delivery{' anyway' if event.get('failing') else ''}", "dim")
        case "change.proposed":
            yield Line(text("title"), "strong", f"change {text('change_id')}: ")
            name, command = next_steps(event)[0]
            yield Line(visible(f"branch {event.get('branch')}; {name}: {command}"), "dim")
        case "delivery.ended" if event.get("outcome") == "failed":
            yield Line(text("reason", lines=True), "bad", "not delivered: ")
        case "delivery.ended" if event.get("outcome") == "nothing":
            yield Line(NOTHING)
        case "delivery.ended" if event.get("outcome") == "proposed":
            if text("reason"):
                yield Line(text("reason"), lead="note: ")
            if page := page_of(event):
                yield Line(visible(page), "strong", "pull request: ")
        case "file.changed" if event.get("by") != AGENT and not event.get("call_id"):
            yield Line(f"{who} {text('kind')} {text('path')}", "dim")
        case "files.changed" if event.get("by") != AGENT and not event.get("ignored"):
            yield Line(f"{who}: {visible(files_summary(event))}", "dim")
        case "egress.attempted" if not event.get("allowed"):
            yield Line(f"blocked connection to {text('host')}:{event.get('port')}: {text('reason')}", "dim")
        case "tries.judged":
            yield from map(Line, tries_lines(event))
        case "run.ended":
            yield from _ended(event)
        case _ if note := environment_note(kind, event) or _session_note(kind, event, who):
            yield Line(note, "dim")


def _tests(event: Mapping[str, Any], command: str) -> Iterator[Line]:
    """The result of tests. Those of the agent's tool show their failures themselves."""
    reason = one_line(str(event.get("reason") or ""), MAX_STEP_CHARS)  # its end says what to do
    counts = f"{event.get('passed', 0)} passed, {event.get('failed', 0)} failed"
    if event.get("ok") and not any(event.get(word) for word in ("passed", "failed", "skipped")):
        counts = counts_of(event)
    compared = f"; {found}" if (found := comparison_of(event)) else ""
    said = reason if reason and not event.get("ok") else f"{counts}{missing_of(event)}{compared}"
    yield Line(f"{said}  ({command})", "good" if event.get("ok") else "bad", "tests: ")
    if event.get("cause", "tool") != "tool":
        for case in failed_cases(event)[:MAX_FAILED_TESTS]:
            yield Line(f"  FAILED {one_line(str(case.get('name')), MAX_LINE_CHARS)}{place_of(case)}", "bad")


def _session_note(kind: str, event: Mapping[str, Any], who: str) -> str:
    def text(name: str) -> str:
        return one_line(str(event.get(name) or ""), MAX_LINE_CHARS)

    match kind:
        case "step.reached":  # the end of a warning says what to do
            return one_line(str(event.get("message") or ""), MAX_STEP_CHARS)
        case "command.ended" if event.get("terminal"):
            code = f"  (exit code {event['exit_code']})" if event.get("exit_code") else ""
            return f"{who} ran in terminal {text('terminal')}: {text('command')}{code}"
        case "session.prepared":
            commit = f" at {text('commit')[:12]}" if event.get("commit") else ""
            source = f" of {text('source')}{commit}" if event.get("source") else ""
            return f"the workspace{source} is ready"
        case "run.started":
            why = f" ({reason})" if (reason := text("model_reason")) else ""
            return f"{text('persona')} starts with {text('model')}{why}"
        case "context.compacted":
            return "the conversation was summarised"
        case "terminal.opened":
            return f"{who} opened a terminal"
        case "helper.started" | "helper.ended" | "helper.changes_taken":
            return helper_note(kind, event)
        case "session.changed":
            return f"{who} changed {'; '.join(change_lines(event))}"
        case "run.changed":
            return f"{text('persona')} continues with {text('model')}"
        case "session.paused" | "session.resumed" | "run.resumed":
            return f"{kind.partition('.')[2]} by {who}"
        case "session.parked":
            return "parked: the jail is closed, the files stay"
        case "session.rewound":
            return f"{who} undid the last run: its changes and its conversation are taken back{_files(event)}"
        case "changes.undone":
            return f"{who} undid {text('title')}{_files(event)}"
        case "session.redone":
            return f"{who} took back {text('title')}{_files(event)}"
        case "conversation.copied":
            return f"the conversation of {text('session')} was taken along"
        case "input.processed" if event.get("refused") and event.get("kind") in ("message", "undo", "redo"):
            return f"{text('kind')} refused: {text('refused')}"
        case "events.omitted":
            count = f"{number} events are" if (number := event.get("count", 0)) else "Events may be"
            return f"{count} missing here: {text('reason')}"
        case "session.ended":
            return f"the session has ended{f': {why}' if (why := text('reason')) else ''}"
    return debug_note(kind, event, who)


def _files(event: Mapping[str, Any]) -> str:
    """The effects of an undo on files that others had changed too."""
    parts = {
        "merged": "changes by others are kept in",
        "marked": "conflicts are marked in",
        "kept": "left as they are:",
        "discarded": "changes by others are discarded in",
    }
    said = [
        f"{words} {one_line(', '.join(map(str, event[name])), MAX_LINE_CHARS)}"
        for name, words in parts.items()
        if event.get(name)
    ]
    return f"; {'; '.join(said)}" if said else ""


def _result(lines: Sequence[str], more: int, *, ok: bool) -> Iterator[Line]:
    mark = "" if ok else "! "
    for line in lines:
        cut = line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"
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
        turns = f"{event['turns']} turn{'' if event['turns'] == 1 else 's'}"
        yield Line(f"{done}{turns}, {tokens}{price}, {took}", "dim")


def files_summary(event: Mapping[str, Any]) -> str:
    """The numbers of a `files.changed`, and where most of the files are."""
    counts = [f"{event[kind]:,} {kind}" for kind in ("created", "modified", "deleted") if event.get(kind)]
    where = ", ".join(f"{name or '.'}: {count:,}" for name, count in (event.get("directories") or {}).items())
    kind = "ignored files" if event.get("ignored") else "files"
    return f"{', '.join(counts)} {kind}{f' ({where})' if where else ''}"


def arguments(text: str) -> str:
    """The arguments of a tool call in one line."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        parsed = text
    if isinstance(parsed, dict) and [*map(type, parsed.values())] == [str]:
        text = next(iter(parsed.values()))
    elif isinstance(parsed, dict):
        pairs = (
            (name, value if isinstance(value, str) else json.dumps(value)) for name, value in parsed.items()
        )
        text = "  ".join(f"{name}={value}" for name, value in pairs)
    return one_line(text.replace("\n", " ⏎ "), MAX_LINE_CHARS)
