"""Events of interviews and of the work in them as short sentences without a subject, for people."""

from hutch.domain.events import AnyEvent, Event, ModelReplied
from hutch.system.terminal_safe_text import visible

MAX_CHARS = 200
SENTENCES: dict[str, str] = {  # of the events of interviews
    "interview.planned": "planned the interview",
    "interview.invited": "invited: {role}",
    "candidate.joined": "came to the lobby",
    "lobby.checked": "checked the system",
    "consent.given": "agreed to the terms",
    "interview.begun": "began the interview: {minutes} minutes",
    "question.opened": "question {number} is open: {title} in {language}, level {level}",
    "language.switched": "goes on in {language}",
    "interview.paused": "paused the clock: {reason}",
    "interview.resumed": "the clock runs again",
    "struggle.measured": "struggle score {score}",
    "level.proposed": "proposes level {level}: {reason}",
    "level.declined": "declined the proposed level",
    "level.changed": "switched the level from {before} to {level}",
    "help.offered": "offers help: {reason}",
    "help.accepted": "takes the help",
    "help.dismissed": "dismisses the help",
    "note.written": "note: {text}",
    "time.extended": "gives {minutes} minutes more",
    "candidate.disconnected": "the candidate is offline; the clock stops",
    "candidate.reconnected": "the candidate is back; {credited_ms} ms are credited",
    "client.reported": "reports from the client: {events}",
    "hidden_tests.run": "hidden tests of question {number}: {passed} of {total} pass",
    "hidden_tests.counted": "{passed} of {total} hidden tests pass",
    "code.measured": "the code of question {number} was measured; findings of the linter: {findings_total}",
    "rating.given": "rates {criterion}: {points}",
    "mark.overridden": "sets the mark {mark} to {points}",
    "interview.ended": "the interview ended ({cause})",
    "interview.sealed": "the record is sealed",
}
WORK_SENTENCES: dict[str, str] = {  # of other events, for a spectator
    "message.sent": "says: {text}",
    "file.changed": "changed {path}",
    "tests.run": "ran the tests: {passed} passed, {failed} failed",
    "run.queued": "asks the AI: {prompt}",
    "model.replied": "answers: {text}",
    "tool.called": "uses {tool}",
    "session.ended": "the record is closed",
}


def event_sentence(event: AnyEvent) -> str:
    """The event of an interview or of its work in a few words; empty if it says little to a spectator."""
    if isinstance(event, ModelReplied) and not event.text:
        return ""
    return _fill(WORK_SENTENCES.get(event.type, ""), event) or interview_sentence(event)


def interview_sentence(event: AnyEvent) -> str:
    """The event of an interview in a few words; empty for other events."""
    return _fill(SENTENCES.get(event.type, ""), event)


def _fill(sentence: str, event: AnyEvent) -> str:
    if not isinstance(event, Event):  # erased or withheld: it has no fields
        return ""
    values = {name: _text(value) for name, value in vars(event).items()} if sentence else {}
    return " ".join(sentence.format_map(values).rstrip(": ").split())[:MAX_CHARS]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(getattr(each, "type", "") for each in value)
    return "none" if value is None else visible(str(value))
