"""A question is read from a folder; anything that is not one is refused with the file and the line."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.domain.given_code_test_case import CodeCase, Expected, spell
from hutch.flows.interview_questions.question_bank_lookup import find_question, find_questions, load_question
from tests.flows.interview_questions.question_folders import TOML, write_question


def test_a_folder_becomes_a_question(tmp_path: Path) -> None:
    question = load_question(write_question(tmp_path))
    assert (question.id, question.version, question.time_minutes) == ("double", 3, 10)
    assert question.levels == ("consultant", "pair")
    assert question.languages == ("python",)
    variant = question.variant("python")
    assert list(variant.wrong_solutions) == ["constant", "square"]
    assert sorted(question.candidate_files("python")) == ["double.py", "test_double.py"]
    assert question.hidden_cases[1] == CodeCase(
        name="large", call="double", args=(21,), expected=Expected(value=42)
    )


def test_the_digest_changes_with_any_file(tmp_path: Path) -> None:
    before = load_question(write_question(tmp_path)).digest
    assert load_question(tmp_path / "double").digest == before
    (tmp_path / "double/python/starter/double.py").chmod(0o755)
    assert load_question(tmp_path / "double").digest != before


def test_a_language_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no files for go. It has: python"):
        load_question(write_question(tmp_path)).variant("go")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question_dot_toml": TOML.replace("version = 3", "version = 0")}, "toml line 2: `version` must"),
        ({"question_dot_toml": TOML.replace('"pair"', '"boss"')}, "toml line 5: `levels.1` must be"),
        ({"question_dot_toml": "id = \n"}, "question.toml is not TOML: .*line 1"),
        ({"question_dot_toml": TOML + "[growth]\nsizes = [1, 2]\nmax_exponent = 1\n"}, "has no growth.py"),
        ({"hidden_dot_json": "[\n{]"}, "hidden.json line 2 is not JSON"),
        ({"hidden_dot_json": '[{"name": "a", "call": "double", "args": [NaN]}]'}, "NaN is not JSON"),
        ({"hidden_dot_json": '[{"name": "a"}]'}, "case 1 \\('a'\\): give one of call, create and stdin"),
        ({"hidden_dot_json": "[" * 50_000}, "hidden.json is not JSON"),
        ({"hidden_dot_json": None}, "no hidden tests for python"),
        ({"statement_dot_md": " "}, "statement.md must have"),
        ({"python__solution__double_dot_py": None}, "python/solution has no files"),
        ({"pyhton__starter__a_dot_py": "x"}, "has a folder 'pyhton'"),
        ({"python__startre__a_dot_py": "x"}, "python has 'startre'"),
        ({"notes_dot_doc": "x"}, "has a file 'notes.doc'"),
    ],
)
def test_a_mistake_is_reported_with_its_place(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        load_question(write_question(tmp_path, **changes))


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    folder = write_question(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    link = folder / "python/starter/link.py"
    link.symlink_to(secret)
    with pytest.raises(BadRequest, match=r"'python/starter/link.py' is a link"):
        load_question(folder)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(BadRequest, match=r"'python/starter/link.py' is not a file"):
        load_question(folder)


def test_too_much_is_refused(tmp_path: Path) -> None:
    folder = write_question(tmp_path)
    with (folder / "python/starter/large.bin").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(LimitReached, match="more than 16 MiB"):
        load_question(folder)


def test_a_bank_of_the_installation_comes_before_the_bundled_one(tmp_path: Path) -> None:
    write_question(tmp_path)
    assert find_question([tmp_path], "double").title == "Double a number"
    assert find_question([], str(tmp_path / "double")).title == "Double a number"
    with pytest.raises(NotFound, match=r"There is no question 'triple'. There are: .*double"):
        find_question([tmp_path], "triple")


def test_a_broken_question_does_not_hide_the_others(tmp_path: Path) -> None:
    write_question(tmp_path)
    write_question(tmp_path / "x", question_dot_toml="id = ")
    (tmp_path / "x/double").rename(tmp_path / "broken")
    found = {each.name: each for each in find_questions([tmp_path])}
    assert found["double"].question is not None
    assert "is not TOML" in found["broken"].problem
    with pytest.raises(BadRequest, match="is not TOML"):
        find_question([tmp_path], "broken")


def test_each_language_has_its_spelling_of_a_name() -> None:
    spellings = [spell("merge_all", each) for each in ("python", "javascript", "typescript", "go")]
    assert spellings == ["merge_all", "mergeAll", "mergeAll", "MergeAll"]
    assert [spell("RateLimiter", each) for each in ("python", "javascript", "go")] == ["RateLimiter"] * 3
    assert spell("allow", "go") == "Allow"
