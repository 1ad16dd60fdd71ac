"""`hutch questions`: write, check and share questions of interviews."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.app.throwaway_jail_code_executor import code_executor
from hutch.cli import exit_codes
from hutch.domain.errors import BadRequest, Unavailable
from hutch.domain.given_code_test_case import LANGUAGE_NAMES, LANGUAGES, Language
from hutch.domain.interview_question import Question, is_slow_solution
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_limits_and_results import execution_limits
from hutch.flows.interview_questions.question_bank_lookup import FoundQuestion, find_folder, find_questions
from hutch.flows.interview_questions.question_creation_import_export import (
    export_question,
    import_question,
    new_question_files,
    write_folder,
)
from hutch.flows.interview_questions.question_test_validation import Finding, check_question
from hutch.system.terminal_safe_text import printable, visible

app = typer.Typer(
    help="Write, check and share interview questions.", no_args_is_help=True, add_completion=False
)


def complete_question(incomplete: str) -> list[tuple[str, str]]:
    """The ids of questions, with their titles."""
    found = find_questions(settings.load().settings.questions.banks)
    return [
        (each.name, each.question.title)
        for each in found
        if each.question and each.name.startswith(incomplete)
    ]


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="QUESTION",
        help="An id of `questions list`, or a folder: ./name.",
        autocompletion=complete_question,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUESTION",
        help="Ids of `questions list`, or folders: ./name.",
        autocompletion=complete_question,
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace one that exists.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--language", metavar="|".join(LANGUAGES), help="Only this language; may be repeated."),
]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the questions: those of your banks, and those of Hutch."""
    found = find_questions(settings.load().settings.questions.banks)
    if as_json:
        typer.echo(json.dumps([_listed(each) for each in found], indent=2))
        return
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        name = printable(each.name).ljust(width)
        if (question := each.question) is None:
            typer.echo(f"{name}  cannot be read: {printable(each.problem)}")
            continue
        names = ", ".join(LANGUAGE_NAMES[language] for language in question.languages)
        typer.echo(f"{name}  {printable(question.title)} ({question.time_minutes} min; {names})")
    if not found:
        typer.echo("There are no questions. Write one with `hutch questions new`.", err=True)


@app.command()
def show(
    question: Name,
    as_json: Json = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also the hidden tests and the rubric.")] = False,
) -> None:
    """Show the statement of a question, and a list of its files."""
    found = _find(question)
    about = found.question
    assert about is not None
    if as_json:
        typer.echo(json.dumps(_shown(found, about, hidden), indent=2, ensure_ascii=False))
        return
    levels = ", ".join(about.levels)
    typer.echo(f"{about.title} ({about.id}, version {about.version})")
    typer.echo(f"{about.time_minutes} minutes; help: {levels}; {found.folder}\n")
    typer.echo(visible(about.statement, lines=True).rstrip())
    for language in about.languages:
        files = ", ".join(about.candidate_files(language))
        typer.echo(f"\n{LANGUAGE_NAMES[language]}: {printable(files)}")
    if hidden:
        typer.echo(
            f"\nHidden cases: {', '.join(printable(case.name) for case in about.hidden_cases) or 'none'}"
        )
        for each in about.rubric:
            typer.echo(f"{printable(each.name)}: {printable(each.description)}")


@app.command()
def new(
    id: Annotated[str, typer.Argument(metavar="ID", help="Lower-case words with hyphens: rate-limiter.")],
    only: Only = None,
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="The bank to write it into.")] = Path(),
) -> None:
    """Write a small question that passes its check, to start from."""
    folder = into / id
    write_folder(new_question_files(id, _languages(only) or LANGUAGES), folder)
    typer.echo(str(folder))
    typer.echo(f"Edit its files, then: hutch questions check {_as_argument(folder)}", err=True)


@app.command()
def check(
    questions: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="All questions.")] = False,
    only: Only = None,
    no_growth: Annotated[
        bool, typer.Option("--no-growth", help="Leave out slow solutions, which take most of the time.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=64, help="Jails at a time; by default all cores.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check that the tests of questions tell right from wrong, in jails.

    In every language the reference solution must pass all tests, each wrong solution must be found, and the
    starter must not pass. Exits with 3 if any is not so.
    """
    if bool(questions) == everything:
        raise BadRequest("Name questions, or use --all. `hutch questions list` lists them.")
    loaded = settings.load()
    banks = loaded.settings.questions.banks
    named = questions or ()
    chosen = find_questions(banks) if everything else [find_folder(banks, each) for each in named]
    for each in chosen:
        if each.question is None:
            raise BadRequest(each.problem)
    parsed = [each.question for each in chosen if each.question is not None]
    executor = code_executor(loaded, concurrency=jobs)
    chosen_languages = _languages(only)
    for question in parsed:
        for language in chosen_languages:
            question.variant(language)  # or an error that names those that there are
    return asyncio.run(_check(executor, loaded, parsed, chosen_languages, as_json, with_growth=not no_growth))


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A folder, or an archive: .zip, .tar.gz.")],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="The bank; by default the first of questions.banks."),
    ] = None,
    replaces: Replace = False,
) -> None:
    """Copy a question into a bank. Nothing of it is run; check it afterwards."""
    if into is None:
        banks = settings.load().settings.questions.banks
        if not banks:
            raise BadRequest("There is no bank to import into. Use --into DIR, or set questions.banks.")
        into = Path(banks[0])
    question, folder = import_question(source, into, replaces=replaces)
    typer.echo(str(folder))
    typer.echo(
        f"Imported {question.id} version {question.version}. Check it: hutch questions check "
        f"{_as_argument(folder)}",
        err=True,
    )


@app.command()
def export(
    question: Name,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new folder, or an archive: .zip, .tar.gz.")
    ],
    replaces: Replace = False,
) -> None:
    """Write a question to a folder or an archive.

    It has the hidden tests and the solutions.
    """
    found = _find(question)
    export_question(found.folder, target, replaces=replaces)
    typer.echo(str(target))
    typer.echo("It holds the hidden tests and the solutions: do not show it to candidates.", err=True)


async def _check(
    executor: CodeExecutor,
    loaded: settings.LoadedSettings,
    questions: Sequence[Question],
    languages: Sequence[Language],
    as_json: bool,
    *,
    with_growth: bool,
) -> int:
    wanted = {each for question in questions for each in languages or question.languages}
    missing = [str(each) for each in (await executor.toolchains()).missing if each.language in wanted]
    if missing:
        raise Unavailable("\n".join(missing))
    if "go" in wanted:
        typer.echo("Preparing Go (the first time takes a minute)", err=True)
        await executor.prepare(["go"])
    total = sum(_count(question, languages, with_growth) for question in questions)
    progress = _Progress(total)
    limits = execution_limits(loaded.settings.execution)
    found = [
        finding
        for question in questions
        for finding in await check_question(
            executor,
            question,
            languages=languages or question.languages,
            limits=limits,
            with_growth=with_growth,
            on_finding=progress.add,
        )
    ]
    wrong = [finding for finding in found if not finding.ok]
    if as_json:
        typer.echo(json.dumps({"ok": not wrong, "findings": [asdict(each) for each in found]}, indent=2))
    else:
        typer.echo(
            f"{len(found) - len(wrong)} of {len(found)} are as they should be ({progress.took_s:.0f} s)."
        )
    return exit_codes.NO if wrong else exit_codes.OK


class _Progress:
    """Prints each finding on standard error."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._began = total, 0, time.monotonic()

    @property
    def took_s(self) -> float:
        return time.monotonic() - self._began

    def add(self, finding: Finding) -> None:
        self._count += 1
        word = "ok   " if finding.ok else "WRONG"
        place = f"[{self._count}/{self._total}]"
        sys.stderr.write(f"{place} {word} {printable(str(finding))}\n")
        sys.stderr.flush()


def _count(question: Question, languages: Sequence[Language], with_growth: bool) -> int:
    """The number of findings of a check."""
    chosen = [question.variants[each] for each in languages or question.languages]
    return sum(2 + _count_wrong(variant.wrong_solutions, with_growth) for variant in chosen)


def _count_wrong(names: Iterable[str], with_growth: bool) -> int:
    """One for each wrong solution that is checked, and one if there is none at all."""
    given = list(names)
    return len([name for name in given if with_growth or not is_slow_solution(name)]) if given else 1


def _find(name: str) -> FoundQuestion:
    found = find_folder(settings.load().settings.questions.banks, name)
    if found.question is None:
        raise BadRequest(found.problem)
    return found


def _languages(named: Sequence[str] | None) -> tuple[Language, ...]:
    chosen = dict.fromkeys(named or ())
    for each in chosen:
        if each not in LANGUAGES:
            raise BadRequest(f"There is no language '{each}'. There are: {', '.join(LANGUAGES)}.")
    return tuple(language for language in LANGUAGES if language in chosen)


def _as_argument(folder: Path) -> str:
    """The folder as an argument that is no id."""
    text = os.fspath(folder)
    return text if "/" in text else f"./{text}"


def _listed(found: FoundQuestion) -> dict[str, Any]:
    about: dict[str, Any] = {"id": found.name, "folder": str(found.folder), "bundled": found.is_bundled}
    if found.question is None:
        return {**about, "problem": found.problem}
    question = found.question
    return {
        **about,
        "title": question.title,
        "version": question.version,
        "time_minutes": question.time_minutes,
        "levels": list(question.levels),
        "languages": list(question.languages),
        "digest": question.digest,
    }


def _shown(found: FoundQuestion, question: Question, hidden: bool) -> dict[str, Any]:
    shown = {**_listed(found), "statement": question.statement}
    shown["files"] = {language: list(question.candidate_files(language)) for language in question.languages}
    if hidden:
        shown["hidden_cases"] = [case.name for case in question.hidden_cases]
        shown["rubric"] = [{"name": each.name, "description": each.description} for each in question.rubric]
    return shown
