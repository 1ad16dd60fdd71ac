"""The content of an interview's report, from its facts: what every form of it shows, in order."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from hutch.flows.interviews.report_blocks import Block, Cell, Span, cell, heading, moment, paragraph, table
from hutch.flows.interviews.report_name_and_time_format import person, time_of_day, used_time
from hutch.flows.interviews.report_workspace_content import workspace_content


def report_content(report: dict[str, Any]) -> list[Block]:
    """All blocks of the report."""
    names: dict[str, str] = report["names"]
    return [
        heading(1, f"Report: {report['title']}"),
        paragraph(report["note"]),
        *table("The interview", ("Fact", "Value", "Moment"), _facts(report)),
        *(block for each in report["questions"] for block in _question(report, each, names)),
        heading(2, "Timeline"),
        *table("What happened", ("Moment", "Time", "Who", "What"), _timeline(report, names)),
    ]


def _facts(report: dict[str, Any]) -> Iterable[tuple[Cell, ...]]:
    clock, room = report["clock"], report["interview"]
    at: dict[str, int] = report["moments"]
    policy = f"version {report['policy']}, {'used' if report['adaptive'] else 'not used'}"
    rows = (
        ("Candidate", person(report["candidate"], report["names"]), "candidate.joined"),
        (
            "Company and role",
            ", ".join(filter(None, (report["company"], report["role"]))),
            "interview.planned",
        ),
        ("Began", _date(report["begun_ms"]), "interview.begun"),
        ("Ended", _date(report["ended_ms"]), "interview.ended"),
        ("Time used", used_time(clock["elapsed_ms"]), "interview.ended"),
        ("Credited for time offline", used_time(clock["credited_ms"]), "candidate.reconnected"),
        ("Extra time", f"{report['extra_time_percent']} %", "interview.planned"),
        ("Accommodations", report["accommodations"], "interview.planned"),
        ("Adaptive policy", policy, "interview.planned"),
        ("AI", "allowed" if report["ai"] else "not allowed", "interview.planned"),
        ("Record", f"{room}, {'sealed' if report['sealed'] else 'not sealed yet'}", "interview.sealed"),
    )
    for name, value, type in rows:
        if value:
            yield cell(name), cell(value), (moment(room, at[type]),) if type in at else ()


def _question(report: dict[str, Any], question: dict[str, Any], names: dict[str, str]) -> Iterable[Block]:
    room = report["interview"]
    minutes = f" of {question['minutes']} min" if question["minutes"] else ""
    yield heading(2, f"Question {question['number']}: {question['title']} (version {question['version']})")
    yield paragraph(
        f"Time used: {used_time(question['used_ms'])}{minutes}, from ",
        moment(room, question["opened_seq"]),
        ".",
    )
    yield from table(
        "Ratings", ("Moment", "Criterion", "Points, 1 to 5", "By", "Comment"), _ratings(room, question, names)
    )
    yield from table(
        "Hidden tests", ("Moment", "Language", "Passed", "By", "Problem"), _hidden(room, question, names)
    )
    for each in question["workspaces"]:
        yield from workspace_content(each, names, room)
    yield from table(
        "Levels of help", ("Moment", "Time", "Who", "What"), _moments(room, question["levels"], names)
    )
    yield from table("Offers of help", ("Moment", "Time", "What", "Answer"), _offers(room, question))
    yield from table("Notes", ("Moment", "Time", "By", "Note"), _notes(room, question, names))


def _ratings(room: str, question: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in question["ratings"]:
        by = person(each["by"], names)
        yield (
            (moment(room, each["seq"]),),
            cell(each["criterion"]),
            cell(str(each["points"])),
            cell(by),
            cell(each["comment"]),
        )


def _hidden(room: str, question: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in question["hidden_tests"]:
        links = cell(
            moment(room, each["seq"]), " on the work at ", moment(each["workspace"], each["work_seq"])
        )
        by = person(each["by"] or "hutch", names)
        passed = f"{each['passed']} of {each['total']}"
        yield links, cell(each["language"]), cell(passed), cell(by), cell(each["reason"])


def _offers(room: str, question: dict[str, Any]) -> Iterable[tuple[Cell, ...]]:
    for each in question["help"]["offers"]:
        link = (moment(room, each["seq"]),)
        yield link, cell(time_of_day(each["at_ms"])), cell(each["what"]), cell(each.get("answer", "none"))


def _notes(room: str, question: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in question["notes"]:
        links = cell(moment(room, each["seq"]), " at ", moment(each["workspace"], each["work_seq"]))
        yield links, cell(time_of_day(each["at_ms"])), cell(person(each["by"], names)), cell(each["text"])


def _moments(room: str, found: Iterable[dict[str, Any]], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in found:
        link: tuple[Span, ...] = (moment(room, each["seq"]),)
        yield (
            link,
            cell(time_of_day(each["at_ms"])),
            cell(person(each.get("by", ""), names)),
            cell(each["what"]),
        )


def _timeline(report: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    return _moments(report["interview"], report["timeline"], names)


def _date(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at_ms else ""
