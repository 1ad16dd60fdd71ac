"""Interviews as lines of text: in lists, as a state, as a report, and compared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hutch.cli.server_requests import short
from hutch.system.terminal_safe_text import visible


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
    if interview["offer"]:
        rows.append(("offer", f"{interview['offer']['number']}: {interview['offer']['kind']}"))
    return "\n".join(f"{name:<10} {visible(str(value))}" for name, value in rows)


def check_line(check: Mapping[str, Any]) -> str:
    """One line of the system check in the lobby."""
    if check["ok"]:
        return f"{visible(check['name'])}: works"
    optional = "" if check["required"] else "you cannot switch to it here. "
    return f"{visible(check['name'])}: {optional}{visible(check['message'])}"


def hidden_test_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """A run of the hidden tests, with the cases that did not pass."""
    yield f"{run['passed']} of {run['total']} hidden tests pass" + (
        f": {visible(run['reason'])}" if run["reason"] else ""
    )
    for each in run["cases"]:
        if each["status"] != "passed":
            yield f"  {visible(each['name'])}: {each['status']} {visible(each['message'])}".rstrip()


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


COMPARED = (
    "candidate",
    "visible",
    "hidden",
    "time",
    "runs",
    "passed at",
    "AI",
    "own text",
    "AI text",
    "ratings",
)


def comparison_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Candidates beside each other, in the order of the server. Times are of the question's clock."""
    cells = [COMPARED, *map(_compared, rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _compared(row: Mapping[str, Any]) -> tuple[str, ...]:
    chars = row["ai_chars"] + row["own_chars"] + row["other_chars"] or 1
    hidden = "-" if row["hidden_total"] is None else f"{row['hidden_passed']} of {row['hidden_total']}"
    passed_ms = row["first_all_passed_ms"]
    ratings = ", ".join(f"{visible(each['criterion'])} {each['points']}" for each in row["ratings"])
    return (
        visible(row["candidate_name"] or row["candidate"] or "-"),
        "all pass" if row["all_visible_passed"] else "not all",
        hidden,
        _clock(row["used_ms"]),
        str(row["test_runs"]),
        "-" if passed_ms is None else _clock(passed_ms),
        f"{row['ai_replies']} replies",
        f"{100 * row['own_chars'] // chars} %",
        f"{100 * row['ai_chars'] // chars} %",
        ratings or "-",
    )
