"""The report of an interview: facts from its logs, each with the events that show it.

Nothing is added up to one number, and nothing decides about a person. Pauses and pastes are shown with what
happened around them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hutch.domain.current_actor_and_author import author_of
from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import (
    AnyEvent,
    CodeMeasured,
    Entry,
    Event,
    FileChanged,
    HelpAccepted,
    HelpDismissed,
    HelpOffered,
    HiddenTestsRun,
    LevelChanged,
    LevelProposed,
    MarkOverridden,
    NoteWritten,
    QuestionOpened,
    RatingGiven,
    StruggleMeasured,
)
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.user import Caller
from hutch.flows.interviews.candidate_ai_skill_marks import MEANINGS, Mark
from hutch.flows.interviews.file_authorship import UNKNOWN, find_authors
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_event_sentences import event_sentence
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_view import clock_view
from hutch.flows.interviews.paste_and_focus_context import reports_with_context
from hutch.flows.interviews.pause_explanation import explain_pauses
from hutch.flows.interviews.question_assessment_facts import QuestionAssessment, assess_question
from hutch.flows.interviews.report_blocks import blocks_to_json
from hutch.flows.interviews.report_content import report_content
from hutch.flows.run_and_log_lookup import read_log
from hutch.store.event_log_interface import EventLog
from hutch.store.users import Users

TIMELINE = [
    "interview.begun",
    "interview.paused",
    "interview.resumed",
    "question.opened",
    "language.switched",
    "level.proposed",
    "level.declined",
    "level.changed",
    "help.offered",
    "help.accepted",
    "help.dismissed",
    "time.extended",
    "candidate.disconnected",
    "candidate.reconnected",
    "hidden_tests.run",
    "code.measured",
    "note.written",
    "interview.ended",
]


async def read_whole_log(log: EventLog, session_id: SessionId) -> list[Entry]:
    """All entries, for the owner's side."""
    found: list[Entry] = []
    while page := await log.read(session_id, after=found[-1].seq if found else 0):
        found += page
    return found


async def make_report(interviews: InterviewServices, who: Caller, interview_id: str) -> dict[str, Any]:
    """The report, for the owner's side."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    log = interviews.services.log
    room = await read_whole_log(log, interview.id)
    workspaces = [
        each for each in await interviews.rows.workspaces(interview.id) if each.number <= interview.number
    ]
    questions = []
    for number in range(1, interview.number + 1):
        own = [each for each in workspaces if each.number == number]
        questions.append(await _question(interviews, interview, number, own, room))
    people = {interview.owner, interview.candidate} | {str(getattr(entry.event, "by", "")) for entry in room}
    people |= {author for each in questions for work in each["workspaces"] for author in work["authors"]}
    report: dict[str, Any] = {
        "interview": interview.id,
        "title": interview.plan.title,
        "phase": interview.phase,
        "candidate": interview.candidate,
        "company": interview.plan.company,
        "role": interview.plan.role,
        "ai": interview.plan.ai,
        "adaptive": interview.plan.adaptive,
        "policy": _policies(room) or interviews.policy.version,
        "clock": asdict(clock_view(interview, interviews.now_ms())),
        "extra_time_percent": interview.plan.extra_time_percent,
        "accommodations": interview.plan.accommodations,
        "begun_ms": interview.begun_ms,
        "ended_ms": interview.ended_ms,
        "sealed": interview.sealed,
        "names": await Users(interviews.services.rows).names(people - {""}),
        "moments": {entry.event.type: entry.seq for entry in reversed(room)},
        "timeline": [_moment(entry) for entry in room if entry.event.type in TIMELINE],
        "questions": questions,
        "marks": MEANINGS,
        "note": "Facts for a person who decides. Nothing here is a verdict, and nothing rejects anyone.",
    }
    return {**report, "content": blocks_to_json(report_content(report))}


def _policies(room: Sequence[Entry]) -> str:
    """The versions of the policy that the interview used: the server may have a newer one since."""
    events = (entry.event for entry in room)
    used = (
        each.policy for each in events if isinstance(each, StruggleMeasured | LevelProposed | HelpOffered)
    )
    return ", ".join(dict.fromkeys(used))


async def _question(
    interviews: InterviewServices,
    interview: Interview,
    number: int,
    workspaces: Sequence[InterviewWorkspace],
    room: Sequence[Entry],
) -> dict[str, Any]:
    entry, opened = _opened(room, number)
    ids = {each.session_id for each in workspaces}
    parts = [await _workspace(interviews, interview, each, room) for each in workspaces]
    return {
        "number": number,
        "id": opened.question,
        "title": opened.title,
        "opened_seq": entry.seq,
        "opened_ms": entry.at_ms,
        "version": opened.version,
        "digest": opened.digest,
        "minutes": opened.minutes,
        "used_ms": _used_ms(interview, number, room, interviews.now_ms()),
        "rubric": await _rubric(interviews, opened.question),
        "workspaces": parts,
        "hidden_tests": [
            {**_moment(entry), "cases": list(entry.event.cases)}
            for entry in room
            if isinstance(entry.event, HiddenTestsRun) and entry.event.number == number
        ],
        "levels": [
            _moment(entry)
            for entry in room
            if isinstance(entry.event, LevelProposed | LevelChanged) and entry.event.workspace in ids
        ],
        "help": _help(room, ids),
        "ratings": _ratings(room, number),
        "notes": [
            _moment(entry)
            for entry in room
            if isinstance(entry.event, NoteWritten) and entry.event.workspace in ids
        ],
    }


def _opened(room: Sequence[Entry], number: int) -> tuple[Entry, QuestionOpened]:
    for entry in room:
        if isinstance(entry.event, QuestionOpened) and entry.event.number == number:
            return entry, entry.event
    raise Conflict(
        "The content of this interview was erased, so there is no report. Its record still verifies."
    )


async def _workspace(
    interviews: InterviewServices, interview: Interview, workspace: InterviewWorkspace, room: Sequence[Entry]
) -> dict[str, Any]:
    entries = await read_log(interviews.services.log, workspace.session_id)
    facts = assess_question(entries, interview.candidate)
    authors = await find_authors(interviews.services.host, workspace.session_id, entries)
    reports = reports_with_context(room, workspace.session_id, entries)
    totals: dict[str, int] = defaultdict(int)
    for file in authors:
        for author, chars in file.chars.items():
            totals[author] += chars
    code = [each for each in room if _is_code_of(each.event, workspace.session_id)]
    return {
        "session": workspace.session_id,
        "language": workspace.language,
        "last_seq": entries[-1].seq if entries else 0,
        "tests": [asdict(each) for each in facts.tests],
        "first_all_passed_seq": facts.first_all_passed_seq,
        "marks": marks_with_overrides(facts, room, workspace.number),
        "pauses": explain_pauses(facts.pauses, entries, room),
        "pastes": [each for each in reports if each["type"] == "paste"],
        "focus": [each for each in reports if each["type"] != "paste"],
        "ai": asdict(facts.ai),
        "code": _moment(code[-1]) if code else None,
        "authors": dict(totals),
        "last_changes": {
            author_of(entry.event) or UNKNOWN: entry.seq
            for entry in entries
            if isinstance(entry.event, FileChanged)
        },
        "files": [asdict(each) for each in authors],
    }


def _is_code_of(event: AnyEvent, session_id: SessionId) -> bool:
    return isinstance(event, CodeMeasured) and event.workspace == session_id


def marks_with_overrides(
    facts: QuestionAssessment, room: Sequence[Entry], number: int
) -> list[dict[str, Any]]:
    """The computed marks, and the assessors' own where they have replaced one."""
    own: dict[str, tuple[int, MarkOverridden]] = {}
    for entry in room:
        if isinstance(entry.event, MarkOverridden) and entry.event.number == number:
            own[entry.event.mark] = (entry.seq, entry.event)
    return [_mark(mark, own.get(mark.name)) for mark in facts.marks]


def _mark(mark: Mark, own: tuple[int, MarkOverridden] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        **asdict(mark),
        "meaning": MEANINGS[mark.name],
        "computed": mark.points,
        "overridden": None,
    }
    if own is not None and own[1].points is not None:
        seq, event = own
        found["points"] = event.points
        found["overridden"] = {"seq": seq, "by": event.by, "comment": event.comment}
    return found


def _ratings(room: Sequence[Entry], number: int) -> list[dict[str, Any]]:
    """The last rating of each assessor and criterion."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in room:
        event = entry.event
        if isinstance(event, RatingGiven) and event.number == number:
            found.pop((event.by, event.criterion), None)
            if event.points is not None:
                found[event.by, event.criterion] = _moment(entry)
    return list(found.values())


def _help(room: Sequence[Entry], workspaces: set[SessionId]) -> dict[str, Any]:
    offered = {
        entry.event.offer: _moment(entry)
        for entry in room
        if isinstance(entry.event, HelpOffered) and entry.event.workspace in workspaces
    }
    for entry in room:
        if isinstance(entry.event, HelpAccepted | HelpDismissed) and entry.event.offer in offered:
            taken = isinstance(entry.event, HelpAccepted)
            offered[entry.event.offer]["answer"] = "accepted" if taken else "dismissed"
    answers = [each.get("answer", "") for each in offered.values()]
    return {
        "offers": list(offered.values()),
        "offered": len(answers),
        "accepted": answers.count("accepted"),
        "dismissed": answers.count("dismissed"),
    }


def _used_ms(interview: Interview, number: int, room: Sequence[Entry], now_ms: int) -> int:
    """The time that the candidate had for a question, by the interview's clock."""
    starts = {
        entry.event.number: entry.event.elapsed_ms
        for entry in room
        if isinstance(entry.event, QuestionOpened)
    }
    return starts.get(number + 1, interview.elapsed_ms(now_ms)) - starts[number]


async def _rubric(interviews: InterviewServices, question_id: str) -> list[dict[str, str]]:
    try:
        question = await interviews.question(question_id)
    except HutchError:  # it was removed from the bank since
        return []
    return [{"name": each.name, "description": each.description} for each in question.rubric]


def _moment(entry: Entry) -> dict[str, Any]:
    """An event of the room with its number, time and sentence; `work_seq` is its moment in a workspace."""
    event = entry.event
    fields = event.model_dump(exclude={"v", "audience", "cases"}) if isinstance(event, Event) else {}
    if "seq" in fields:
        fields["work_seq"] = fields.pop("seq")
    return {
        **fields,
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "type": event.type,
        "what": event_sentence(event),
    }
