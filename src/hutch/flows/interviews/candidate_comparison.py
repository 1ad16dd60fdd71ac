"""Compares candidates on one question by what they did. There is no order by merit and no total."""

from typing import Any

from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import Conflict
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_planning_and_invitations import list_interviews
from hutch.flows.interviews.interview_report import make_report
from hutch.flows.interviews.interview_services import InterviewServices

MAX_COMPARED = 50


async def compare_candidates(
    interviews: InterviewServices, who: Caller, question: str
) -> list[dict[str, Any]]:
    """One row for each ended interview with this question that the caller may assess, newest first."""
    found = await list_interviews(interviews, who, phases=("ended", "closed"), limit=200)
    rows: list[dict[str, Any]] = []
    for shown in found:
        asked = question in [each.id for each in shown.interview.plan.questions]
        if asked and shown.role in ("owner", "assessor") and len(rows) < MAX_COMPARED:
            try:
                report = await make_report(interviews, who, shown.interview.id)
            except Conflict:  # its content was erased
                continue
            rows += [_row(report, each) for each in report["questions"] if each["id"] == question]
    return rows


def _row(report: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    work = question["workspaces"]
    authors: dict[str, int] = {}
    for each in work:
        for author, chars in each["authors"].items():
            authors[author] = authors.get(author, 0) + chars
    last = question["hidden_tests"][-1] if question["hidden_tests"] else None
    return {
        "interview": report["interview"],
        "candidate": report["candidate"],
        "candidate_name": report["names"].get(report["candidate"], ""),
        "number": question["number"],
        "version": question["version"],
        "digest": question["digest"],
        "title": report["title"],
        "ended_ms": report["ended_ms"],
        "opened_seq": question["opened_seq"],
        "sessions": [each["session"] for each in work],
        "languages": [each["language"] for each in work],
        "extra_time_percent": report["extra_time_percent"],
        "used_ms": question["used_ms"],
        "test_runs": sum(len(each["tests"]) for each in work),
        "tests": _tests(question),
        "first_all_passed_ms": _first_all_passed_ms(question),
        "all_visible_passed": any(each["first_all_passed_seq"] is not None for each in work),
        "hidden_passed": last["passed"] if last else None,
        "hidden_total": last["total"] if last else None,
        "code": _code(question),
        "hidden_seq": last["seq"] if last else 0,
        "help": {name: question["help"][name] for name in ("offered", "accepted", "dismissed")},
        "ai_test_runs": sum(each["ai"]["test_runs"] for each in work),
        "ai_replies": sum(each["ai"]["replies"] for each in work),
        "ai_chars": authors.get(AGENT, 0),
        "own_chars": authors.get(report["candidate"], 0),
        "other_chars": sum(authors.values()) - authors.get(AGENT, 0) - authors.get(report["candidate"], 0),
        "pauses": sum(len(each["pauses"]) for each in work),
        "pastes": sum(len(each["pastes"]) for each in work),
        "levels": list(
            dict.fromkeys(each["level"] for each in question["levels"] if each["type"] == "level.changed")
        ),
        "marks": {each["name"]: each["points"] for item in work for each in item["marks"]},
        "ratings": [
            {
                **{name: each[name] for name in ("by", "criterion", "points")},
                "by_name": report["names"].get(each["by"], ""),
            }
            for each in question["ratings"]
        ],
    }


def _tests(question: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of the visible tests over time, since the question was opened."""
    runs = [
        {
            "ms": each["at_ms"] - question["opened_ms"],
            "passed": each["passed"],
            "failed": each["failed"],
            "aided": each["aided"],
            "session": work["session"],
            "seq": each["seq"],
        }
        for work in question["workspaces"]
        for each in work["tests"]
    ]
    return sorted(runs, key=lambda each: each["ms"])


def _first_all_passed_ms(question: dict[str, Any]) -> int | None:
    return next((each["ms"] for each in _tests(question) if each["passed"] and not each["failed"]), None)


def _code(question: dict[str, Any]) -> dict[str, int] | None:
    """The findings of linters, and the highest complexity of a function; None if nothing was measured."""
    found = [work["code"] for work in question["workspaces"] if work["code"] and work["code"]["linter"]]
    complexities = [each["complexity"] for code in found for each in code["functions"]]
    if not found:
        return None
    return {
        "findings": sum(code["findings_total"] for code in found),
        "max_complexity": max(complexities, default=0),
        "added_lines": sum(code["added_lines"] for code in found),
    }
