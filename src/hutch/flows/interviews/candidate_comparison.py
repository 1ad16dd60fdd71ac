"""Compares candidates on one question by what they did. There is no order by merit and no total."""

from typing import Any

from hutch.domain.current_actor_and_event_author import AGENT
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_planning import list_interviews
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
            report = await make_report(interviews, who, shown.interview.id)
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
        "languages": [each["language"] for each in work],
        "extra_time_percent": report["extra_time_percent"],
        "used_ms": question["used_ms"],
        "test_runs": sum(len(each["tests"]) for each in work),
        "all_visible_passed": any(each["first_all_passed_seq"] is not None for each in work),
        "hidden_passed": last["passed"] if last else None,
        "hidden_total": last["total"] if last else None,
        "ai_replies": sum(each["ai"]["replies"] for each in work),
        "ai_chars": authors.get(AGENT, 0),
        "own_chars": authors.get(report["candidate"], 0),
        "levels": list(
            dict.fromkeys(each["level"] for each in question["levels"] if each["type"] == "level.changed")
        ),
        "marks": {each["name"]: each["points"] for item in work for each in item["marks"]},
        "ratings": [
            {name: each[name] for name in ("by", "criterion", "points")} for each in question["ratings"]
        ],
    }
