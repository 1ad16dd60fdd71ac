"""The part of a report about one workspace: tests, authors, code, prompts, AI, pauses, pastes and focus."""

from collections.abc import Iterable
from typing import Any

from hutch.flows.interviews.report_blocks import (
    Block,
    Cell,
    Span,
    cell,
    heading,
    moment,
    moments,
    paragraph,
    table,
)
from hutch.flows.interviews.report_name_and_time_format import person, time_of_day

MAX_CODE_ROWS = 20
MAX_NAMED = 3  # files of which no authors are known
FOCUS = {"blur": "left the page", "focus": "came back to the page", "visibility": "page"}
CONTEXT_NOTE = (
    "Reported by the candidate's browser or found in the log. There are many good reasons for each."
)


def workspace_content(work: dict[str, Any], names: dict[str, str], room: str) -> Iterable[Block]:
    """The blocks about one workspace. Links lead into its log, or into that of the room."""
    session = work["session"]
    yield heading(3, f"{work['language']}: ", Span(session, session, work["last_seq"]))
    if work["first_all_passed_seq"] is not None:
        yield paragraph(
            "All visible tests passed first at ", moment(session, work["first_all_passed_seq"]), "."
        )
    head = ("Moment", "Time", "By", "Result", "Work")
    yield from table("Visible tests over time", head, _tests(work, names))
    yield from table(
        "Who wrote the text", ("Author", "Characters", "Share", "Last change"), _authors(work, names)
    )
    if left_out := [each["path"] for each in work["files"] if not each["counted"]]:
        shown = ", ".join(left_out[:MAX_NAMED])
        count = "1 file that is" if len(left_out) == 1 else f"{len(left_out)} files that are"
        what = f"Not counted: {count} too large or no text, such as {shown}, at "
        yield paragraph(what, moment(session, work["last_seq"]), ".")
    yield from _code(work, names, room)
    yield from _ai(work)
    yield from table("Prompts to the AI", ("Mark, 0 to 2", "Meaning", "Why", "Moments"), _marks(work, names))
    contexts = [
        *table("Pauses of more than two minutes", ("From", "To", "Length", "Around it"), _pauses(work)),
        *table("Pastes", ("Moment", "Time", "What", "Before and after it"), _pastes(work, room)),
        *table("Leaving the page", ("Moment", "Time", "What", "Before and after it"), _focus(work, room)),
    ]
    if contexts:
        yield from (*contexts, paragraph(CONTEXT_NOTE))


def _tests(work: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in work["tests"]:
        yield (
            (moment(work["session"], each["seq"]),),
            cell(time_of_day(each["at_ms"])),
            cell(person(each["by"], names)),
            cell(f"{each['passed']} passed, {each['failed']} failed"),
            cell("after a change by the AI" if each["aided"] else "own work"),
        )


def _authors(work: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    total = sum(work["authors"].values()) or 1
    for author, chars in sorted(work["authors"].items(), key=lambda each: -each[1]):
        share = f"{100 * chars / total:.0f} %"
        yield cell(person(author, names)), cell(f"{chars:,}"), cell(share), _last_change(work, author)


def _code(work: dict[str, Any], names: dict[str, str], room: str) -> Iterable[Block]:
    code = work["code"]
    if code is None:
        return
    yield paragraph(
        f"Code: {code['added_lines']} lines added, {code['removed_lines']} removed; linter "
        f"{code['linter'] or 'missing'}: {code['findings_total']} findings. {code['problem']} ",
        moment(room, code["seq"]),
        " on the work at ",
        moment(work["session"], code["work_seq"]),
    )
    head = ("Author", "Lines", "Findings", "Functions", "Highest complexity", "Last change")
    yield from table("Code by author", head, _code_by_author(work, names))
    functions = [
        (
            each["name"],
            f"{each['path']}:{each['line']}",
            str(each["lines"]),
            str(each["complexity"]),
            each["author"],
        )
        for each in code["functions"][:MAX_CODE_ROWS]
    ]
    measured: Cell = (moment(work["session"], code["work_seq"]),)
    shown = [(*map(cell, each[:4]), cell(person(each[4], names)), measured) for each in functions]
    head = ("Function", "Place", "Lines", "Complexity", "By", "Moment")
    yield from table("Most complex functions", head, shown)
    findings = [
        (
            cell(f"{each['path']}:{each['line']}"),
            cell(each["code"]),
            cell(each["message"]),
            cell(person(each["author"], names)),
            measured,
        )
        for each in code["findings"][:MAX_CODE_ROWS]
    ]
    yield from table("Findings of the linter", ("Place", "Rule", "Message", "By", "Moment"), findings)


def _code_by_author(work: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for author, counts in sorted(work["code"]["authors"].items(), key=lambda each: -each[1]["lines"]):
        numbers = [cell(str(counts[name])) for name in ("lines", "findings", "functions", "max_complexity")]
        yield cell(person(author, names)), *numbers, _last_change(work, author)


def _last_change(work: dict[str, Any], author: str) -> Cell:
    """The first event stands for the files that the question came with."""
    return (moment(work["session"], work["last_changes"].get(author, 1)),)


def _ai(work: dict[str, Any]) -> Iterable[Block]:
    ai, session = work["ai"], work["session"]
    if not ai["replies"]:
        return
    calls = ", ".join(f"{tool} {count}" for tool, count in sorted(ai["calls"].items()))
    cost = "" if ai["cost_usd"] is None else f", {ai['cost_usd']:.4f} USD"
    yield paragraph(
        f"The AI: {ai['replies']} replies, {ai['input_tokens']:,} tokens in and {ai['output_tokens']:,} out"
        f"{cost}; tool calls: {calls or 'none'}; {ai['test_runs']} test runs, {ai['changed_files']} changed "
        "files; from ",
        moment(session, ai["first_reply_seq"]),
        " to ",
        moment(session, ai["last_reply_seq"]),
        ".",
    )


def _marks(work: dict[str, Any], names: dict[str, str]) -> Iterable[tuple[Cell, ...]]:
    for each in work["marks"]:
        points = "–" if each["points"] is None else str(each["points"])
        own = each["overridden"]
        why = each["reason"]
        if own:
            computed = "–" if each["computed"] is None else each["computed"]
            comment = f": {own['comment']}" if own["comment"] else ""
            why += f" Set by {person(own['by'], names)}, computed {computed}{comment}."
        yield (
            cell(f"{each['name']}: {points}"),
            cell(each["meaning"]),
            cell(why),
            moments(work["session"], each["evidence"]),
        )


def _pauses(work: dict[str, Any]) -> Iterable[tuple[Cell, ...]]:
    session = work["session"]
    for each in work["pauses"]:
        parts = [f"before: {each['before']}; after: {each['after']}"]
        if each["clock_stood_s"]:
            parts.append(f"the clock stood for {each['clock_stood_s']} s of it")
        if each["ai_events"]:
            parts.append(f"the AI was at work ({each['ai_events']} events)")
        length = f"{each['seconds'] // 60} min {each['seconds'] % 60} s"
        yield (
            (moment(session, each["after_seq"]),),
            (moment(session, each["next_seq"]),),
            cell(length),
            cell("; ".join(parts)),
        )


def _pastes(work: dict[str, Any], room: str) -> Iterable[tuple[Cell, ...]]:
    for each in work["pastes"]:
        data = each["data"]
        what = f"{data.get('chars', 'unknown')} characters"
        if data.get("where"):
            what += f" into the {data['where']}"
        if each["copied"]:
            where = f" from the {each['copied']['where']}" if each["copied"]["where"] else ""
            what += f"; as many were copied{where} {each['copied']['seconds_before']} s before"
        yield (
            (moment(room, each["seq"]),),
            cell(time_of_day(each["happened_ms"])),
            cell(what),
            _around(work, each),
        )


def _focus(work: dict[str, Any], room: str) -> Iterable[tuple[Cell, ...]]:
    for each in work["focus"]:
        what = FOCUS[each["type"]]
        if each["type"] == "visibility":
            what += f" {each['data'].get('state', 'changed')}"
        if "away_s" in each:
            what += f" after {each['away_s']} s"
        yield (
            (moment(room, each["seq"]),),
            cell(time_of_day(each["happened_ms"])),
            cell(what),
            _around(work, each),
        )


def _around(work: dict[str, Any], report: dict[str, Any]) -> Cell:
    parts: list[str | Span] = []
    for when in ("before", "after"):
        if found := report[when]:
            parts += [
                "; " if parts else "",
                f"{when}: {found['what']} ",
                moment(work["session"], found["seq"]),
            ]
    return cell(*parts)
