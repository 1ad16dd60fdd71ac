"""`hutch questions`, run as a person would."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from tests.deadline import DEADLINE_S
from tests.flows.interview_questions.question_folders import write_question
from tests.forked_command import HUTCH, run


def hutch(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(
        [HUTCH, *arguments],
        env={"HUTCH_HOME": str(home), "PATH": os.defpath},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(f'[questions]\nbanks = ["{tmp_path}/bank"]\n')
    write_question(tmp_path / "bank")
    return tmp_path


def test_questions_of_the_bank_and_of_hutch_are_listed(home: Path) -> None:
    listed = {each["id"]: each for each in json.loads(hutch(home, "questions", "list", "--json").stdout)}
    assert listed["double"]["title"] == "Double a number" and not listed["double"]["bundled"]
    assert listed["rate-limiter"]["languages"] == ["python", "javascript", "typescript", "go"]
    assert "double             Double a number (10 min; Python)" in hutch(home, "questions", "list").stdout


def test_a_broken_question_is_listed_with_its_problem(home: Path) -> None:
    (home / "bank/double/question.toml").write_text("id = ")
    assert "double             cannot be read: " in hutch(home, "questions", "list").stdout
    shown = hutch(home, "questions", "show", "double")
    assert shown.returncode == exit_codes.BAD_REQUEST and "is not TOML" in shown.stderr


def test_show_hides_hidden_cases_unless_asked(home: Path) -> None:
    shown = json.loads(hutch(home, "questions", "show", "double", "--json").stdout)
    assert shown["files"] == {"python": ["double.py", "test_double.py"]}
    assert "hidden_cases" not in shown and "large" not in json.dumps(shown)
    shown = json.loads(hutch(home, "questions", "show", "double", "--json", "--hidden").stdout)
    assert shown["hidden_cases"] == ["zero", "large"]
    text = hutch(home, "questions", "show", "double").stdout
    assert "Return twice the number." in text and "large" not in text


def test_check_reports_each_solution_and_exits_with_3_if_one_is_wrong(home: Path) -> None:
    ran = hutch(home, "questions", "check", "double")
    assert (ran.returncode, ran.stdout.split(" (")[0]) == (0, "4 of 4 are as they should be"), ran
    assert "[4/4] ok" in ran.stderr and "double Python solution: passes" in ran.stderr
    (home / "bank/double/python/solution/double.py").write_text("def double(n):\n    return n\n")
    ran = hutch(home, "questions", "check", "./bank/double", "--json")
    assert ran.returncode == exit_codes.NO
    report = json.loads(ran.stdout)
    assert not report["ok"]
    assert [each["subject"] for each in report["findings"] if not each["ok"]] == ["solution"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check",), "Name questions, or use --all"),
        (("check", "nothing"), "There is no question 'nothing'. There are: "),
        (("check", "double", "--language", "cobol"), "There is no language 'cobol'"),
        (("check", "double", "--language", "go"), "no files for go"),
        (("new", "Not An Id"), "is no id"),
        (("export", "double", "out.rar"), "neither a folder nor an archive"),
        (("import", "nothing.zip"), "There is no file nothing.zip"),
        (("import", "config.toml"), "is not the folder of a question"),
    ],
)
def test_mistakes_are_explained(home: Path, arguments: tuple[str, ...], words: str) -> None:
    ran = hutch(home, "questions", *arguments)
    assert ran.returncode not in (0, exit_codes.BUG), ran
    assert words in ran.stderr, ran.stderr


def test_a_new_question_is_written_exported_and_imported(home: Path) -> None:
    made = hutch(home, "questions", "new", "sum-it", "--language", "python", "--into", "other")
    assert (made.returncode, made.stdout) == (0, "other/sum-it\n"), made
    assert sorted(each.name for each in (home / "other/sum-it").iterdir()) == [
        "hidden.json",
        "python",
        "question.toml",
        "statement.md",
    ]
    again = hutch(home, "questions", "new", "sum-it", "--into", "other")
    assert again.returncode != 0 and "exists" in again.stderr
    assert hutch(home, "questions", "export", "./other/sum-it", "q.tar.gz").returncode == 0
    imported = hutch(home, "questions", "import", "q.tar.gz")
    assert imported.stdout == f"{home}/bank/sum-it\n", imported
    assert "sum-it" in hutch(home, "questions", "list").stdout


def test_questions_are_completed(home: Path) -> None:
    assert "double" in hutch(home, "__complete", "questions", "show", "dou").stdout
    assert "rate-limiter" in hutch(home, "__complete", "questions", "check", "rate").stdout
