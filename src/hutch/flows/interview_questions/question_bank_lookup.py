"""Finds questions in banks: directories whose subfolders are questions.

The questions that come with Hutch are always there. A bank of the installation may replace one of them
by a question with the same id.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.domain.interview_question import Question
from hutch.domain.one_line_text import echo
from hutch.flows.interview_questions.bank_directories import bundled_bank
from hutch.flows.interview_questions.question_folder_parser import TOML, parse_question
from hutch.flows.interview_questions.question_folder_reader import read_folder
from hutch.system.lazy_dataclass import dataclass

MAX_QUESTIONS = 1000  # in one bank


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """A question and its folder; or the folder and why it cannot be read."""

    folder: Path
    is_bundled: bool
    question: Question | None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.question.id if self.question else self.folder.name


def load_question(folder: Path) -> Question:
    """The question in a folder. Blocks the thread."""
    return parse_question(read_folder(folder), str(folder))


def find_questions(banks: Sequence[str | Path]) -> list[FoundQuestion]:
    """All questions of the banks and of Hutch, by id; the first bank that has an id counts. Blocks."""
    found: dict[str, FoundQuestion] = {}
    bundled = bundled_bank()
    for bank in (*map(Path, banks), bundled):
        for folder in _folders(bank):
            each = _found(folder, is_bundled=bank == bundled)
            found.setdefault(each.name, each)
    return sorted(found.values(), key=lambda each: each.name)


def find_question(banks: Sequence[str | Path], name: str) -> Question:
    """The question with this id, or in this folder if the name has a `/`. Blocks the thread."""
    found = find_folder(banks, name)
    if found.question is None:
        raise BadRequest(found.problem)
    return found.question


def find_folder(banks: Sequence[str | Path], name: str) -> FoundQuestion:
    """The same with its folder; the question may be one that cannot be read. Blocks the thread."""
    if "/" in name or name in (".", ".."):
        folder = Path(os.path.expanduser(name))  # noqa: PTH111
        return FoundQuestion(folder, False, load_question(folder))
    found = find_questions(banks)
    for each in found:
        if each.name == name:
            return each
    there = ", ".join(each.name for each in found)
    folder_hint = f" For a folder, write ./{name}." if Path(name).is_dir() else ""
    raise NotFound(f"There is no question {echo(name, 100)}. There are: {there or 'none'}.{folder_hint}")


def _found(folder: Path, *, is_bundled: bool) -> FoundQuestion:
    try:
        question = load_question(folder)
    except HutchError as error:
        return FoundQuestion(folder, is_bundled, None, str(error))
    if question.id != folder.name:
        problem = f"{folder}/{TOML}: the id is '{question.id}'. Give the folder the same name."
        return FoundQuestion(folder, is_bundled, None, problem)
    return FoundQuestion(folder, is_bundled, question)


def _folders(bank: Path) -> list[Path]:
    try:
        folders = sorted(each for each in bank.iterdir() if (each / TOML).is_file())
    except OSError as error:
        raise BadRequest(f"The question bank {bank} cannot be read: {error.strerror}.") from None
    if len(folders) > MAX_QUESTIONS:
        raise BadRequest(f"The question bank {bank} has more than {MAX_QUESTIONS} questions.")
    return folders
