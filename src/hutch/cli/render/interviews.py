"""Interviews as lines of text: in lists, as a state, as events, and as a report."""

from collections.abc import Iterator, Mapping
from typing import Any

from hutch.cli.server_requests import short
from hutch.domain.events import AnyEvent
from hutch.system.terminal_text import visible

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
    "candidate.disconnected": "the candidate is offline; the clock stands",
    "candidate.reconnected": "the candidate is back; {credited_ms} ms are credited",
    "client.reported": "reports from the client: {events}",
    "hidden_tests.run": "hidden tests of question {number}: {passed} of {total} pass",
    "hidden_tests.counted": "{passed} of {total} hidden tests pass",
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
    if event.type == "model.replied" and not vars(event).get("text"):
        return ""
    return _fill(WORK_SENTENCES.get(event.type, ""), event) or interview_sentence(event)


def interview_sentence(event: AnyEvent) -> str:
    """The event of an interview in a few words; empty for other events."""
    return _fill(SENTENCES.get(event.type, ""), event)


def _fill(sentence: str, event: AnyEvent) -> str:
    values = {name: _text(value) for name, value in vars(event).items()} if sentence else {}
    return " ".join(sentence.format_map(values).rstrip(": ").split())[:200]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(getattr(each, "type", "") for each in value)
    return "none" if value is None else visible(str(value))


def line(interview: Mapping[str, Any]) -> str:
    """One line of a list."""
    question = interview["question"]
    at = f"question {question['number']} of {interview['question_count']}" if question else "-"
    left = _clock(interview["clock"]["remaining_ms"])
    candidate = visible(interview["candidate_name"]) or "-"
    return (
        f"{short(interview['id'])}  {interview['phase']:<8} {at:<20} {left:>8} left  {candidate:<16} "
        f"{visible(interview['title'])}"
    )


def describe(interview: Mapping[str, Any]) -> str:
    """The state of an interview."""
    clock, question = interview["clock"], interview["question"]
    rows = [
        ("id", interview["id"]),
        ("title", interview["title"]),
        ("phase", interview["phase"]),
        ("candidate", interview["candidate_name"] or "-"),
        ("time used", _clock(clock["elapsed_ms"])),
        ("time left", _clock(clock["remaining_ms"])),
        ("credited", _clock(clock["credited_ms"])),
    ]
    if question:
        rows += [
            ("question", f"{question['number']} of {interview['question_count']}: {question['title']}"),
            ("language", question["language"]),
            ("level", question["level"] or "no AI"),
            ("workspace", question["workspace"]),
        ]
    if interview["proposal"]:
        proposal = interview["proposal"]
        rows.append(("proposal", f"{proposal['number']}: level {proposal['level']}"))
    return "\n".join(f"{name:<10} {visible(str(value))}" for name, value in rows)


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report in short; the page has all of it."""
    names = report["names"]
    yield f"{visible(report['title'])}: {visible(names.get(report['candidate'], '-'))}"
    yield f"time used {_clock(report['clock']['elapsed_ms'])}, policy {report['policy']}"
    for question in report["questions"]:
        yield ""
        yield f"Question {question['number']}: {visible(question['title'])}, {_clock(question['used_ms'])}"
        for hidden in question["hidden_tests"]:
            problem = f" ({visible(hidden['reason'])})" if hidden["reason"] else ""
            yield f"  hidden tests   {hidden['passed']} of {hidden['total']}{problem}"
        for work in question["workspaces"]:
            last = work["tests"][-1] if work["tests"] else None
            shown = f"{last['passed']} passed, {last['failed']} failed" if last else "never run"
            yield f"  {work['language']:<14} visible tests: {shown}; {len(work['tests'])} runs"
            total = sum(work["authors"].values()) or 1
            shares = ", ".join(
                f"{visible(names.get(author) or author)} {100 * chars // total} %"
                for author, chars in sorted(work["authors"].items())
            )
            yield f"  text by        {shares or '-'}"
            marks = ", ".join(
                f"{mark['name']} {'-' if mark['points'] is None else mark['points']}"
                for mark in work["marks"]
            )
            yield f"  prompts        {marks}"
        for rating in question["ratings"]:
            yield f"  {visible(rating['criterion']):<14} {rating['points']} of 5"
    yield ""
    yield report["note"]


def _clock(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02}"
