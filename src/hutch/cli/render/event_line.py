"""Each event of a log as one readable line. Does no input or output."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hutch.cli.render.debugger_event_lines import debug_line
from hutch.cli.render.helper_agent_event_lines import helper_note
from hutch.cli.render.session_option_change_text import change_lines
from hutch.cli.render.test_results import comparison_of
from hutch.cli.render.transcript import arguments, files_summary
from hutch.domain import events
from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.events import AnyEvent, ErasedEvent, Event, UnknownEvent, WithheldEvent
from hutch.domain.helper_agent_events import HelperChangesTaken, HelperEnded, HelperStarted, TriesJudged
from hutch.domain.session_events import UndoEvent
from hutch.domain.signal_names import signal_name
from hutch.flows.interviews.interview_event_sentences import interview_sentence
from hutch.system.terminal_safe_text import printable

MAX_TEXT_CHARS = 300  # of a text; --json prints whole fields
HASH_CHARS = 12

Names = Mapping[str, str]  # the names of users, by id


def utc_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def event_line(event: AnyEvent, names: Names) -> str:
    """An event in one line, without its type. Nothing in it can control the terminal."""
    match event:
        case WithheldEvent():
            return "(withheld)"
        case ErasedEvent():
            return printable(f"(erased {utc_time(event.at_ms)}{f': {event.reason}' if event.reason else ''})")
        case UnknownEvent():
            return _text(f"(from a newer Hutch) {event.payload.decode(errors='replace')}")
    texts = [
        _in_run(event),
        _in_session(event),
        _in_jail(event),
        interview_sentence(event),
        debug_line(event),
    ]
    parts = [*texts, _by(event, names)]
    return "  ".join(part for part in parts if part)


def _in_run(event: Event) -> str:
    """The events of runs: the model, its tools and questions."""
    match event:
        case events.RunQueued(prompt=prompt):
            return _text(prompt)
        case events.RunStarted():
            why = f" ({event.model_reason})" if event.model_reason else ""
            return _text(f"{event.persona} with {event.model}{why}")
        case events.RunResumed(model=model):
            return _text(f"with {model}") if model else ""
        case events.ModelReplied():
            tools = ", ".join(call.tool for call in event.calls)
            tokens = f"({event.input_tokens:,} tokens in, {event.output_tokens:,} out)"
            return _joined(_text(event.text), _text(f"calls {tools}") if tools else "", tokens)
        case events.ToolCalled():
            return _joined(_text(event.tool), arguments(event.arguments))
        case events.ToolReturned():
            return _joined(_text(event.tool), "" if event.ok else "failed:", _text(event.text))
        case events.ImageLoaded():
            return _text(
                f"{event.path}: {event.media_type}, {event.width}x{event.height}, {event.size:,} bytes"
            )
        case events.ApprovalRequested():
            where = f"; {event.source}" if event.source else ""
            return _text(f"{event.tool}: {event.summary}  ({event.rule}{where})")
        case events.ApprovalAnswered():
            return f"allowed, {event.scope}" if event.allowed else "denied"
        case events.ApprovalExtended():
            return "allowed for the rest of the session"
        case events.QuestionAsked(text=text, choices=choices):
            return _text(f"{text} ({' / '.join(choices)})" if choices else text)
        case events.QuestionAnswered(text=text):
            return _text(text)
        case events.ContextCompacted():
            return f"{event.tokens_before:,} tokens became {event.tokens_after:,}: {_text(event.summary)}"
        case TriesJudged():
            return _text(f"{event.best or 'none'} of {len(event.tries)} tries: {event.reason}")
        case HelperStarted() | HelperEnded() | HelperChangesTaken():
            return helper_note(event.type, event.__dict__)
        case events.RunChanged():
            return _text(f"{event.persona} with {event.model} from turn {event.turn} on")
        case events.RunEnded():
            reason = f": {event.reason}" if event.reason else ""
            cost = "" if event.cost_usd is None else f", ${event.cost_usd:.4f}"
            left = f"left running: {', '.join(event.left_running)}" if event.left_running else ""
            turns = f"({_count(event.turns, 'turn')}{cost})"
            return _joined(_text(_word(event.outcome) + reason), turns, _text(left))
    return _of_work(event)


def _of_work(event: Event) -> str:
    """The events of files, tests and deliveries."""
    match event:
        case events.FileChanged():
            origin = f" from {event.moved_from}" if event.moved_from else ""
            return _text(f"{event.kind} {event.path}{origin}{_cause(event)}")
        case events.FilesChanged():
            return _text(f"{files_summary(event.__dict__)}{_cause(event)}")
        case events.SnapshotTaken():
            return _text(f"{event.snapshot} {event.reason}")
        case events.RanTests():
            counts = f"{event.passed} passed, {event.failed} failed, {event.skipped} skipped"
            compared = f"; {found}" if (found := comparison_of(event.__dict__)) else ""
            return _text(f"{event.reason or counts}{compared}  ({event.command})")
        case events.StartedTests():
            return _text(f"{event.command}{f'  ({event.cause})' if event.cause != 'request' else ''}")
        case events.StepReached(message=message):
            return _text(message)
        case events.ChangeProposed():
            return _text(f"{event.change_id} on {event.branch} for {event.base}: {event.title}")
        case events.DeliveryRequested():
            return "anyway" if event.failing else ""
        case events.DeliveryEnded():
            about = event.reason or event.url or event.change_id
            return _text(f"{event.outcome}{f': {about}' if about else ''}")
        case events.ReviewSubmitted():
            where = f" of {event.change_id or event.url}" if event.change_id or event.url else ""
            blockers = f", {_count(event.blockers, 'blocker')}" if event.blockers else ""
            title = f": {event.title}" if event.title else ""
            return _text(f"{_word(event.verdict)}{where}{blockers}{title}")
    return ""


def _in_session(event: Event) -> str:
    """The events of sessions."""
    match event:
        case events.SessionOpened(purpose=purpose):
            return _text(purpose)
        case events.InputProcessed():
            return _text(f"{event.kind}{f' refused: {event.refused}' if event.refused else ''}")
        case events.SessionPrepared():
            commit = f" at {event.commit[:HASH_CHARS]}" if event.commit else ""
            return _text(f"{event.source}{commit}") if event.source else _text(f"workspace {event.workspace}")
        case events.EnvironmentBuildStarted():
            return _text("; ".join(event.steps))
        case events.EnvironmentBuilt():
            layer = event.layer[:HASH_CHARS]
            return _text(f"{readable_size(event.bytes)} in {event.duration_s:.1f} s, layer {layer}")
        case events.EnvironmentFailed():
            return _text(event.reason)
        case events.ServiceStarted():
            return _text(f"{event.service}: {event.command}")
        case events.ServiceAnswered():
            return _text(f"{event.service}{', which was running already' if event.found else ''}")
        case events.ServiceFailed():
            return _text(f"{event.service}: {event.reason}")
        case events.ServiceStopped():
            return _text(f"{event.service}: {event.output}")
        case events.EnvironmentAttached():
            return _text(f"{', '.join(event.roots)}, layer {event.layer[:HASH_CHARS]}")
        case events.SessionChanged():
            return _text("; ".join(change_lines({"changes": [each.__dict__ for each in event.changes]})))
        case events.SessionParked(reason=reason):
            return _text(reason)
        case events.SessionRewound():
            return _text(f"to event {event.to_seq}{_undone(event)}")
        case events.ChangesUndone():
            return _text(f"{event.title} at event {event.step}{_undone(event)}")
        case events.SessionRedone():
            return _text(f"the undo at event {event.undone}{_undone(event)}")
        case events.ConversationCopied():
            return _text(f"{len(event.events)} events of {event.session}, up to {event.upto_seq}")
        case events.MessageSent():
            return _text(f"{event.author}: {event.text}")
        case events.EventsOmitted():
            types = ", ".join(f"{count} {type_}" for type_, count in event.types.items())
            return _text(f"{event.reason}{f'  ({types})' if types else ''}")
        case events.SessionEnded():
            return _text(f"{event.outcome}{f': {event.reason}' if event.reason else ''}")
    return ""


def _in_jail(event: Event) -> str:
    """The events of commands, terminals and connections."""
    match event:
        case events.CommandStarted():
            return _text(f"{_shell(event)}: {event.command}")
        case events.CommandYielded():
            return _text(f"{_shell(event)}: {event.command}  (now {event.background_id})")
        case events.CommandSignalled():
            return _text(f"{event.background_id}: signal {signal_name(event.signal)}")
        case events.CommandEnded():
            how = (
                "timed out"
                if event.timed_out
                else f"signal {signal_name(event.signal)}"
                if event.signal
                else ""
            )
            how = how or ("did not run" if event.exit_code is None else f"exit code {event.exit_code}")
            return _text(f"{event.background_id or _shell(event)}: {how} after {event.duration_s:.1f} s")
        case events.JobsDetached() | events.JobsEnded():
            command = f": {event.command}" if isinstance(event, events.JobsDetached) and event.command else ""
            output = f"  (prints as {event.background_id})" if command and event.background_id else ""
            name = (
                event.terminal or event.shell
                if command
                else event.background_id or event.terminal or event.shell
            )
            return _text(f"{name}{command}{output}")
        case events.ShellPrinted():
            name = event.background_id or event.shell
            return _text(f"{name}: {_skipped(event.skipped_bytes)}{event.text}")
        case events.TerminalPrinted():
            return _text(f"{event.terminal}: {_skipped(event.skipped_bytes)}{event.text}")
        case events.TerminalTyped():
            hidden = f"[{event.hidden_chars} hidden characters]" if event.hidden_chars else ""
            return _text(f"{event.terminal}: {_skipped(event.skipped_bytes)}{hidden}{event.text}")
        case events.TerminalOpened() | events.TerminalResized():
            return _text(f"{event.terminal}: {event.columns}x{event.rows}")
        case events.TerminalEnded():
            code = "" if event.exit_code is None else f": exit code {event.exit_code}"
            limit = f": stopped by the limit {event.limit}" if event.limit else ""
            return _text(f"{event.terminal}{code}{limit}")
        case events.EgressAttempted():
            verdict = "allowed" if event.allowed else "blocked"
            reason = f": {event.reason}" if event.reason else ""
            return _text(f"{verdict} {event.method} {event.host}:{event.port}{reason}")
    return ""


def _undone(event: UndoEvent) -> str:
    """The effects of an undo on files."""
    count = event.files_count
    parts = [f"; {count} file{'s' if count > 1 else ''} changed" if count else ""]
    for name in ("merged", "marked", "kept", "discarded"):
        parts.append(f"; {name} {', '.join(paths)}" if (paths := getattr(event, name)) else "")
    return "".join(parts)


def _skipped(count: int) -> str:
    return f"[{count:,} bytes are not recorded] " if count else ""


def _shell(event: events.CommandStarted | events.CommandYielded | events.CommandEnded) -> str:
    return f"terminal {event.terminal}" if event.terminal else event.shell


def _cause(event: events.FileChanged | events.FilesChanged) -> str:
    if event.cause == "unknown":
        return ""
    return f"  ({event.cause}{f' {event.source}' if event.source else ''})"


def _by(event: Event, names: Names) -> str:
    by = getattr(event, "by", "") or getattr(event, "owner", "")
    if by:
        return f"by {_text(names.get(by, by))}"
    possible = getattr(event, "possible_authors", ())
    return f"perhaps by {' or '.join(_text(names.get(each, each)) for each in possible)}" if possible else ""


def _word(value: str) -> str:
    return value.replace("_", " ")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _text(text: str) -> str:
    """The beginning of a text in one line; line ends are shown as ⏎."""
    cut = text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}… ({len(text):,} characters)"
    lines = [printable(" ".join(line.split("\t"))) for line in cut.rstrip("\n").split("\n")]
    return " ⏎ ".join(lines).strip()
