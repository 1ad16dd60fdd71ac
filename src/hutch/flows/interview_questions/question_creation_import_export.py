"""Makes, imports and exports the folders of questions."""

import shutil
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.given_code_test_case import LANGUAGES, Language
from hutch.domain.interview_question import ID, MAX_ID_CHARS, Question
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.interview_questions.question_archives import ENDINGS, is_archive, read_archive, write_archive
from hutch.flows.interview_questions.question_folder_parser import parse_question
from hutch.flows.interview_questions.question_folder_reader import QuestionFiles, read_folder
from hutch.system.atomic_file import replace_file

TEMPLATE = "new_question"
PLACEHOLDER = b"QUESTION_ID"


def new_question_files(id: str, languages: tuple[Language, ...] = LANGUAGES) -> QuestionFiles:
    """The files of a small question that passes its check, to be rewritten by its author."""
    if not ID.fullmatch(id) or len(id) > MAX_ID_CHARS:
        raise BadRequest(f"'{id}' is no id: write lower-case words with hyphens, such as rate-limiter.")
    root = resources.files("hutch.flows.interview_questions").joinpath(TEMPLATE)
    others = [language for language in LANGUAGES if language not in languages]
    return {
        path: StarterFile(file.content.replace(PLACEHOLDER, id.encode()))
        for path, file in _template_files(root, "").items()
        if path.split("/")[0] not in others
    }


def import_question(source: Path, bank: Path, *, replaces: bool = False) -> tuple[Question, Path]:
    """Check the question in a folder or an archive, and write it into a bank. Blocks the thread."""
    files = read_archive(source) if is_archive(source) and not source.is_dir() else read_folder(source)
    question = parse_question(files, str(source))
    folder = bank / question.id
    write_folder(files, folder, replaces=replaces)
    return question, folder


def export_question(folder: Path, target: Path, *, replaces: bool = False) -> Question:
    """Write a question to a folder, or to an archive if the name ends like one. Blocks the thread."""
    files = read_folder(folder)
    question = parse_question(files, str(folder))
    if not is_archive(target):
        if "." in target.name and not target.is_dir():
            raise BadRequest(f"{target} is neither a folder nor an archive: use one of {', '.join(ENDINGS)}.")
        write_folder(files, target, replaces=replaces)
        return question
    if target.exists() and not replaces:
        raise Conflict(f"{target} exists. Choose another name, or use --replace.")
    try:
        replace_file(target, write_archive(files, question.id, target))
    except OSError as error:
        raise BadRequest(f"{target} cannot be written: {error.strerror}.") from None
    return question


def write_folder(files: QuestionFiles, folder: Path, *, replaces: bool = False) -> None:
    """Write a folder with exactly these files: all or, after an error, none."""
    if folder.exists() and not (replaces and folder.is_dir()):
        raise Conflict(f"{folder} exists. Choose another name, or use --replace.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise BadRequest(f"{folder.parent} cannot be written: {error.strerror}.") from None
    try:
        for path, file in files.items():
            target = staged / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(0o755 if file.executable else 0o644)
        staged.chmod(0o755)
        if folder.is_dir():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            folder.replace(old / folder.name)
            staged.replace(folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            staged.replace(folder)
    except OSError as error:
        raise BadRequest(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _template_files(root: Traversable, above: str) -> QuestionFiles:
    found: QuestionFiles = {}
    for each in sorted(root.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found |= _template_files(each, f"{above}{each.name}/")
        elif each.is_file():
            # Such names would be taken for Python modules of Hutch and its tests.
            found[f"{above}{each.name.removesuffix('.txt')}"] = StarterFile(each.read_bytes())
    return found
