"""Turns the files of a question's folder into a `Question`. Errors name the file, and the line if known.

question.toml   id, title, version, time, levels, rubric
statement.md    what the candidate reads
hidden.json     hidden cases, the same for all languages
growth.py       optional: prints a case for a size, to find slow solutions
LANGUAGE/       starter/, tests/ (visible), hidden/, solution/, wrong/NAME/
"""

import hashlib
import json
import tomllib
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest
from hutch.domain.given_code_test_case import LANGUAGES, MAX_CASES, CodeCase, Language
from hutch.domain.given_code_test_case_json import CaseFields
from hutch.domain.interview_question import (
    ID,
    MAX_ID_CHARS,
    MAX_MINUTES,
    Criterion,
    Growth,
    LanguageVariant,
    Level,
    Question,
)
from hutch.domain.one_line_text import echo
from hutch.domain.user_given_starter_files import StarterFile, check_starter_files
from hutch.flows.interview_questions.question_folder_reader import QuestionFiles

TOML, STATEMENT, HIDDEN, GROWTH = "question.toml", "statement.md", "hidden.json", "growth.py"
PARTS = ("starter", "tests", "hidden", "solution", "wrong")
ALSO = ("README.md", "LICENSE", "NOTES.md")  # files of the folder that are for people
MAX_STATEMENT_CHARS = 100_000
Short = Annotated[str, Field(min_length=1, max_length=200)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _CriterionFields(_Fields):
    name: Short
    description: Annotated[str, Field(min_length=1, max_length=2000)]


class _GrowthFields(_Fields):
    sizes: list[Annotated[int, Field(ge=1, le=100_000_000)]] = Field(min_length=2, max_length=8)
    max_exponent: float = Field(gt=0, le=5)


class _QuestionFields(_Fields):
    id: Annotated[str, Field(max_length=MAX_ID_CHARS, pattern=f"^{ID.pattern}$")]
    version: int = Field(ge=1, le=1_000_000)
    title: Short
    time_minutes: int = Field(ge=1, le=MAX_MINUTES)
    levels: list[Level] = Field(min_length=1, max_length=3)
    module: Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$", max_length=60)] = "solution"
    rubric: list[_CriterionFields] = Field(min_length=1, max_length=20)
    growth: _GrowthFields | None = None


def parse_question(files: QuestionFiles, place: str) -> Question:
    """The question in these files; `place` is named in errors."""
    fields = _fields(_text(files, TOML, place), f"{place}/{TOML}")
    for path in files:
        _check_place(path, place)
    variants = {
        language: variant
        for language in LANGUAGES
        if (variant := _variant(files, language, place)) is not None
    }
    if not variants:
        raise BadRequest(f"{place} has no folder of a language. Add one of {', '.join(LANGUAGES)}.")
    cases = parse_cases(files[HIDDEN].content, f"{place}/{HIDDEN}") if HIDDEN in files else ()
    without = [each for each in variants if not cases and not variants[each].hidden_tests]
    if without:
        raise BadRequest(
            f"{place} has no hidden tests for {without[0]}: write {HIDDEN} or {without[0]}/hidden/."
        )
    statement = _text(files, STATEMENT, place)
    if not statement.strip() or len(statement) > MAX_STATEMENT_CHARS:
        raise BadRequest(f"{place}/{STATEMENT} must have 1 to {MAX_STATEMENT_CHARS:,} characters.")
    return Question(
        id=fields.id,
        version=fields.version,
        title=fields.title,
        statement=statement,
        time_minutes=fields.time_minutes,
        levels=tuple(dict.fromkeys(fields.levels)),
        rubric=tuple(Criterion(name=each.name, description=each.description) for each in fields.rubric),
        module=fields.module,
        variants=variants,
        hidden_cases=cases,
        growth=_growth(files, fields.growth, place),
        digest=question_digest(files),
    )


def question_digest(files: QuestionFiles) -> str:
    """A hash over all paths and contents."""
    found = hashlib.sha256()
    for path, file in sorted(files.items()):
        for part in (path.encode(), b"x" if file.executable else b"-", file.content):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def parse_cases(content: bytes, place: str) -> tuple[CodeCase, ...]:
    """The cases of a JSON file, each checked."""
    try:
        items = json.loads(content, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadRequest(f"{place} line {error.lineno} is not JSON: {error.msg}.") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{place} is not JSON: {error}.") from None
    if not isinstance(items, list) or not items:
        raise BadRequest(f"{place} is not a list of cases.")
    if len(items) > MAX_CASES:
        raise BadRequest(f"{place} has {len(items)} cases; {MAX_CASES} is the maximum.")
    cases = tuple(_case(item, number, place) for number, item in enumerate(items, start=1))
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(
                f"{place} has more than one case named {echo(name, 100)}. Give each its own name."
            )
    return cases


def _case(item: Any, number: int, place: str) -> CodeCase:
    name = item.get("name") if isinstance(item, dict) else None
    label = f"case {number}" + (f" ({echo(name, 100)})" if isinstance(name, str) else "")
    try:
        return CaseFields.model_validate(item).to_case()
    except ValidationError as error:
        problem = validation_messages.describe_with_location(error.errors()[0])
        raise BadRequest(f"{place}, {label}: {problem}.") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fields(text: str, place: str) -> _QuestionFields:
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequest(f"{place} is not TOML: {error}.") from None
    try:
        return _QuestionFields.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        line = _line_of(text, str(first["loc"][0])) if first["loc"] else 0
        at = f" line {line}" if line else ""
        raise BadRequest(f"{place}{at}: {validation_messages.describe_with_location(first)}.") from None


def _line_of(text: str, key: str) -> int:
    """The line that sets a key or opens its table; 0 if there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = line.strip().lstrip("[").split("=")[0].strip().rstrip("]")
        if found == key:
            return number
    return 0


def _check_place(path: str, place: str) -> None:
    """Refuse files where none are read: a misspelled folder would be ignored in silence."""
    top, _, rest = path.partition("/")
    if not rest:
        if top in (TOML, STATEMENT, HIDDEN, GROWTH, *ALSO):
            return
        raise BadRequest(f"{place} has a file {echo(path, 200)}, which no question has. Remove or rename it.")
    part = rest.partition("/")[0]
    if top not in LANGUAGES:
        raise BadRequest(f"{place} has a folder {echo(top, 100)}; there are {', '.join(LANGUAGES)}.")
    if part not in PARTS or "/" not in rest:
        raise BadRequest(f"{place}/{top} has {echo(part, 100)}; there are {', '.join(PARTS)}.")


def _variant(files: QuestionFiles, language: Language, place: str) -> LanguageVariant | None:
    if not any(path.startswith(f"{language}/") for path in files):
        return None
    found = {part: _below(files, f"{language}/{part}/", f"{place}/{language}/{part}") for part in PARTS[:4]}
    for part in ("starter", "tests", "solution"):
        if not found[part]:
            raise BadRequest(f"{place}/{language}/{part} has no files. Add some.")
    names = {path.split("/")[2] for path in files if path.startswith(f"{language}/wrong/")}
    wrong = {}
    for name in sorted(names):
        wrong[name] = _below(files, f"{language}/wrong/{name}/", f"{place}/{language}/wrong/{name}")
        if not wrong[name]:
            raise BadRequest(f"{place}/{language}/wrong/{echo(name, 100)} must be a folder with files.")
    return LanguageVariant(
        language=language,
        starter=found["starter"],
        visible_tests=found["tests"],
        hidden_tests=found["hidden"],
        solution=found["solution"],
        wrong_solutions=wrong,
    )


def _below(files: QuestionFiles, prefix: str, place: str) -> dict[str, StarterFile]:
    inside = ((path[len(prefix) :], file) for path, file in files.items() if path.startswith(prefix))
    try:
        return check_starter_files(inside)
    except BadRequest as error:
        raise BadRequest(f"{place}: {error}") from None


def _growth(files: QuestionFiles, fields: _GrowthFields | None, place: str) -> Growth | None:
    if fields is None:
        if GROWTH in files:
            raise BadRequest(f"{place} has {GROWTH} but no [growth] with sizes and max_exponent in {TOML}.")
        return None
    sizes = tuple(fields.sizes)
    if list(sizes) != sorted(set(sizes)):
        raise BadRequest(f"{place}/{TOML}: growth.sizes must increase.")
    return Growth(generator=_text(files, GROWTH, place), sizes=sizes, max_exponent=fields.max_exponent)


def _text(files: QuestionFiles, path: str, place: str) -> str:
    if path not in files:
        raise BadRequest(f"{place} has no {path}.")
    try:
        return files[path].content.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{place}/{path} is not UTF-8: byte {error.start} is wrong.") from None
