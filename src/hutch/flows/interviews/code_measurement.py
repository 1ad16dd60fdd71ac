"""Measures the code of a question on a copy of the work: linter, complexity, size, and the shares of authors.

The linter runs in a jail of its own, and the parser in a process that can only compute. The results are
events for the owner's side: facts for people, never a verdict.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import CodeMeasured, Event
from hutch.domain.given_code_test_case import LANGUAGES, Language
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.interview_question import Question
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.one_line_text import echo
from hutch.domain.user import Caller
from hutch.domain.user_given_starter_files import StarterFile
from hutch.edit.syntax_parser import ParseFailed
from hutch.flows.code_execution.code_linters import LintReport
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step
from hutch.flows.interviews.file_authorship import STARTER, UNKNOWN, find_authored_files
from hutch.flows.interviews.function_complexity import MeasuredFunction, measure_functions
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.text_authorship import AuthoredPart
from hutch.flows.interviews.workspace_file_copy import copy_work
from hutch.flows.run_and_log_lookup import read_log

SUFFIXES: Mapping[Language, tuple[str, ...]] = {
    "python": (".py",),
    "javascript": (".js", ".mjs", ".cjs"),
    "typescript": (".ts", ".mts"),
    "go": (".go",),
}
MAX_FILES = 50
MAX_FILE_BYTES = 100_000
MAX_LISTED = 50  # findings, and functions
MAX_NAMED = 3  # files that are above the limits


async def measure_code_now(interviews: InterviewServices, who: Caller, interview_id: str) -> Event:
    """Measure the present work, for an assessor."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    if interview.phase == "closed" or not interview.workspace:
        raise Conflict(f"The interview {interview.id} is {interview.phase}.")
    workspaces = await interviews.rows.workspaces(interview.id)
    workspace = next(each for each in workspaces if each.session_id == interview.workspace)
    result = await measure_code(interviews, workspace, who.user.id)

    def decide(now: Interview, _: int) -> Decision:
        return now, [result]

    await step(interviews, interview.id, decide)
    return result


async def measure_code(interviews: InterviewServices, workspace: InterviewWorkspace, by: str) -> CodeMeasured:
    """The measurements; with a problem if there are none, or if the linter is missing."""
    head = await interviews.services.log.head(workspace.session_id)
    measured = CodeMeasured(
        by=by,
        number=workspace.number,
        question=workspace.question,
        language=workspace.language,
        workspace=workspace.session_id,
        seq=head.seq,
        audience=OWNER_SIDE,
    )
    try:
        fields = await _measure(interviews, workspace)
    except HutchError as error:
        fields = {"problem": interviews.clean(str(error))[:500]}
    return measured.model_copy(update=fields)


async def _measure(interviews: InterviewServices, workspace: InterviewWorkspace) -> dict[str, Any]:
    question = await interviews.question(workspace.question)
    language = next(each for each in LANGUAGES if each == workspace.language)
    work = await copy_work(interviews, workspace.session_id)
    starter = question.candidate_files(workspace.language)
    sources, left_out = _sources(question, language, work)
    if not sources:
        return {"problem": " ".join(filter(None, (f"There is no {language} code to measure.", left_out)))}
    entries = await read_log(interviews.services.log, workspace.session_id)
    parts = await find_authored_files(interviews.services.host, workspace.session_id, entries)
    owners = {
        path: line_owners(parts[path] or () if path in parts else None, text)
        for path, text in sources.items()
    }
    try:
        report = await interviews.executor.lint(language, work, list(sources), limits=interviews.limits)
    except HutchError as error:
        report = LintReport(problem=str(error))
    functions, unparsed = await asyncio.to_thread(_functions, language, sources)
    before = {path: starter[path].content.decode(errors="replace") for path in sources if path in starter}
    added, removed = changed_lines(before, sources)
    problems = [left_out, report.problem, f"Not parsed: {', '.join(unparsed)}." if unparsed else ""]
    return {
        "linter": report.linter,
        "problem": interviews.clean(" ".join(filter(None, problems)))[:500],
        "findings_total": report.total,
        "findings": tuple(
            {
                **asdict(each),
                "message": interviews.clean(each.message),
                "author": _owner(owners, each.path, each.line),
            }
            for each in report.findings[:MAX_LISTED]
        ),
        "functions": tuple(
            {"path": path, **asdict(each), "author": _main_owner(owners[path], each)}
            for path, each in sorted(functions, key=lambda found: -found[1].complexity)[:MAX_LISTED]
        ),
        "added_lines": added,
        "removed_lines": removed,
        "authors": _by_author(owners, functions, report),
    }


def _sources(
    question: Question, language: Language, work: Mapping[str, StarterFile]
) -> tuple[dict[str, str], str]:
    """The files of the work in the language, without the question's own tests. Files of the starter come
    first, so that others cannot displace them. The second value names the files above the limits."""
    variant = question.variant(language)
    paths = [
        path
        for path in sorted(work, key=lambda each: (each not in variant.starter, each))
        if PurePosixPath(path).suffix in SUFFIXES[language] and path not in variant.visible_tests
    ]
    small = [path for path in paths if len(work[path].content) <= MAX_FILE_BYTES][:MAX_FILES]
    left_out = [path for path in paths if path not in small]
    why = ""
    if left_out:
        shown = ", ".join(map(echo, left_out[:MAX_NAMED]))
        why = (
            f"Not measured: {len(left_out)} files, such as {shown}. At most {MAX_FILES} files of "
            f"{MAX_FILE_BYTES:,} bytes are."
        )
    return {path: work[path].content.decode(errors="replace") for path in small}, why


def _functions(
    language: Language, sources: Mapping[str, str]
) -> tuple[list[tuple[str, MeasuredFunction]], list[str]]:
    found: list[tuple[str, MeasuredFunction]] = []
    unparsed = []
    for path, text in sources.items():
        try:
            found += [(path, each) for each in measure_functions(language, text)]
        except ParseFailed:
            unparsed.append(path)
    return found, unparsed


def line_owners(parts: Sequence[AuthoredPart] | None, text: str) -> list[str]:
    """The author of most of each line of a text; empty for blank lines. Files that nobody changed are the
    starter's; ones whose history is not known have no known author."""
    if parts is None:
        return [STARTER if line.strip() else "" for line in text.split("\n")]
    if "".join(part.text for part in parts) != text:
        return [UNKNOWN if line.strip() else "" for line in text.split("\n")]
    counts = [Counter[str]()]
    for part in parts:
        for number, line in enumerate(part.text.split("\n")):
            if number:
                counts.append(Counter())
            if chars := sum(not each.isspace() for each in line):
                counts[-1][part.author] += chars
    return [each.most_common(1)[0][0] if each else "" for each in counts]


def changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
    """Lines that were added and removed. Blank lines, and lines that only moved in a file, do not count."""
    added = removed = 0
    for path, text in after.items():
        new, old = (
            Counter(filter(None, map(str.strip, each.split("\n")))) for each in (text, before.get(path, ""))
        )
        added += (new - old).total()
        removed += (old - new).total()
    return added, removed


def _owner(owners: Mapping[str, Sequence[str]], path: str, line: int) -> str:
    lines = owners.get(path, ())
    return (lines[line - 1] or UNKNOWN) if 0 < line <= len(lines) else UNKNOWN


def _main_owner(lines: Sequence[str], function: MeasuredFunction) -> str:
    inside: Iterable[str] = filter(None, lines[function.line - 1 : function.line - 1 + function.lines])
    counts = Counter(inside)
    return counts.most_common(1)[0][0] if counts else UNKNOWN


def _by_author(
    owners: Mapping[str, Sequence[str]],
    functions: Sequence[tuple[str, MeasuredFunction]],
    report: LintReport,
) -> dict[str, dict[str, int]]:
    """Lines, findings, functions and the highest complexity of each author."""
    found: dict[str, dict[str, int]] = {}

    def of(author: str) -> dict[str, int]:
        return found.setdefault(author, {"lines": 0, "findings": 0, "functions": 0, "max_complexity": 0})

    for lines in owners.values():
        for author in filter(None, lines):
            of(author)["lines"] += 1
    for each in report.findings:
        of(_owner(owners, each.path, each.line))["findings"] += 1
    for path, function in functions:
        counts = of(_main_owner(owners[path], function))
        counts["functions"] += 1
        counts["max_complexity"] = max(counts["max_complexity"], function.complexity)
    return found
