"""The report of an interview as one plain HTML page, without scripts."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}
th,td{border:1px solid #bbb;padding:.3rem .5rem;text-align:left;vertical-align:top}
th{background:#f2f2f2}
@media print{body{margin:0;max-width:none}h2{break-before:page}}
"""
CAPTIONS = {"agent": "the AI", "hutch": "Hutch", "starter": "the question", "unknown": "not known"}


def report_page(report: dict[str, Any]) -> str:
    """The page. Every value is escaped: candidates and models wrote most of them."""
    names: dict[str, str] = report["names"]
    title = f"Report: {report['title']}"
    facts = [
        ("Candidate", names.get(report["candidate"], "")),
        ("Role", report["role"]),
        ("Began", _time(report["begun_ms"])),
        ("Ended", _time(report["ended_ms"])),
        ("Time used", _minutes(report["clock"]["elapsed_ms"])),
        ("Credited for time offline", _minutes(report["clock"]["credited_ms"])),
        ("Extra time", f"{report['extra_time_percent']} %"),
        ("Adaptive policy", f"version {report['policy']}"),
        ("Record", f"{report['interview']}{', sealed' if report['sealed'] else ', not sealed yet'}"),
    ]
    parts = [
        f"<h1>{escape(title)}</h1><p>{escape(report['note'])}</p>",
        _table(("Fact", "Value"), facts),
        *(_question(each, names) for each in report["questions"]),
        "<h2>Timeline</h2>",
        _table(
            ("Event", "Time", "What", "Who", "Details"),
            [_moment(each, names) for each in report["timeline"]],
        ),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _question(question: dict[str, Any], names: dict[str, str]) -> str:
    heading = f"Question {question['number']}: {question['title']} (version {question['version']})"
    hidden = [
        (f"#{each['seq']}", each["language"], f"{each['passed']} of {each['total']}", each["reason"])
        for each in question["hidden_tests"]
    ]
    ratings = [
        (each["criterion"], str(each["points"]), names.get(each["by"], ""), each["comment"])
        for each in question["ratings"]
    ]
    notes = [(_time(each["at_ms"]), names.get(each["by"], ""), each["text"]) for each in question["notes"]]
    offered = question["help"]
    return "".join(
        (
            f"<h2>{escape(heading)}</h2><p>Time used: {_minutes(question['used_ms'])}. Offers of help: "
            f"{offered['offered']}, taken {offered['accepted']}, dismissed {offered['dismissed']}.</p>",
            _section("Ratings", ("Criterion", "Points", "By", "Comment"), ratings),
            _section("Hidden tests", ("Event", "Language", "Passed", "Problem"), hidden),
            *(_workspace(each, names) for each in question["workspaces"]),
            _section("Notes", ("Time", "By", "Note"), notes),
        )
    )


def _workspace(workspace: dict[str, Any], names: dict[str, str]) -> str:
    tests = [
        (
            f"#{each['seq']}",
            _time(each["at_ms"]),
            _name(each["by"], names),
            f"{each['passed']} passed, {each['failed']} failed",
            "after a change by the AI" if each["aided"] else "own work",
        )
        for each in workspace["tests"]
    ]
    marks = [
        (
            each["name"],
            "–" if each["points"] is None else str(each["points"]),
            each["reason"] + (" Set by an assessor." if each["overridden"] else ""),
            ", ".join(f"#{seq}" for seq in each["evidence"]),
        )
        for each in workspace["marks"]
    ]
    total = sum(workspace["authors"].values()) or 1
    authors = [
        (_name(author, names), f"{chars:,}", f"{100 * chars / total:.0f} %")
        for author, chars in sorted(workspace["authors"].items())
    ]
    ai = workspace["ai"]
    pauses = [
        (f"#{each['after_seq']} to #{each['next_seq']}", f"{each['seconds']} s")
        for each in workspace["pauses"]
    ]
    pastes = [
        (f"#{each['seq']}", _time(each["at_ms"]), str(each["data"].get("chars", "")))
        for each in workspace["pastes"]
    ]
    return "".join(
        (
            f"<h3>{escape(workspace['language'])}: {escape(workspace['session'])}</h3>",
            f"<p>The AI: {ai['replies']} replies, {ai['input_tokens'] + ai['output_tokens']:,} tokens, "
            f"{ai['test_runs']} test runs, {ai['changed_files']} changed files.</p>",
            _section("Visible tests over time", ("Event", "Time", "By", "Result", "Work"), tests),
            _section("Who wrote the text", ("Author", "Characters", "Share"), authors),
            _section("Prompts", ("Mark, 0 to 2", "Points", "Why", "Events"), marks),
            _section("Pauses of more than two minutes", ("Between", "Length"), pauses),
            _section("Pastes, as the client reported them", ("Event", "Time", "Characters"), pastes),
        )
    )


def _moment(moment: dict[str, Any], names: dict[str, str]) -> tuple[str, ...]:
    left_out = ("seq", "at_ms", "type", "by", "parts", "elapsed_ms")
    details = ", ".join(
        f"{name}: {value}" for name, value in moment.items() if name not in left_out and value not in ("", 0)
    )
    at, by = _time(moment["at_ms"]), _name(moment.get("by", ""), names)
    return f"#{moment['seq']}", at, moment["type"], by, details


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    return f"<h4>{escape(title)}</h4>{_table(head, rows)}" if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _name(author: str, names: dict[str, str]) -> str:
    return names.get(author) or CAPTIONS.get(author, author)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at_ms else "–"


def _minutes(ms: int) -> str:
    return f"{ms // 60_000} min {ms // 1000 % 60} s"
