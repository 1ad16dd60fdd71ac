"""A check shows whether the tests of a question tell right from wrong."""

from pathlib import Path

import pytest

from hutch.domain.given_code_test_case import LANGUAGES
from hutch.domain.interview_question import Question
from hutch.flows.interview_questions.bank_directories import bundled_bank
from hutch.flows.interview_questions.question_bank_lookup import find_questions, load_question
from hutch.flows.interview_questions.question_creation_import_export import new_question_files, write_folder
from hutch.flows.interview_questions.question_test_runs import (
    growth_exponent,
    measure_growth,
    run_hidden_tests,
    run_visible_tests,
)
from hutch.flows.interview_questions.question_test_validation import Finding, check_question
from tests.flows.code_execution.shared_executor import as_files, executor
from tests.flows.interview_questions.question_folders import FILES, write_question

pytestmark = pytest.mark.anyio
BUNDLED = sorted(each.name for each in bundled_bank().iterdir() if each.is_dir())


def wrong_ones(findings: list[Finding]) -> dict[str, str]:
    return {f"{each.language} {each.subject}": each.message for each in findings if not each.ok}


def test_six_questions_come_with_hutch_in_all_languages() -> None:
    found = find_questions([])
    assert [(each.name, each.problem) for each in found] == [(name, "") for name in BUNDLED]
    assert len(found) >= 6
    for each in found:
        assert each.question is not None and each.is_bundled
        assert each.question.languages == LANGUAGES, each.name
        for language in LANGUAGES:
            names = each.question.variant(language).wrong_solutions
            assert len(names) >= 2 and any(name.startswith("slow") for name in names), (each.name, language)


@pytest.mark.long
async def test_a_new_question_passes_its_check_in_every_language(tmp_path: Path) -> None:
    write_folder(new_question_files("mine"), tmp_path / "mine")
    findings = await check_question(executor(), load_question(tmp_path / "mine"))
    assert wrong_ones(findings) == {}
    assert len(findings) == 4 * len(LANGUAGES)


# The soak test below checks all bundled questions.
@pytest.mark.long
@pytest.mark.parametrize("name", ["search-index", "meeting-rooms"])
async def test_the_python_files_of_a_bundled_question_pass_their_check(name: str) -> None:
    question = load_question(bundled_bank() / name)
    findings = await check_question(executor(), question, languages=["python"], with_growth=False)
    assert wrong_ones(findings) == {}


@pytest.mark.long
async def test_a_bundled_question_passes_its_check_in_all_languages() -> None:
    question = load_question(bundled_bank() / "access-log-report")
    # How times grow is measured by the soak test below, and here for a solution of a plain question.
    assert wrong_ones(await check_question(executor(), question, with_growth=False)) == {}


@pytest.mark.soak
@pytest.mark.parametrize("name", BUNDLED)
async def test_a_bundled_question_passes_its_check_in_every_language(name: str) -> None:
    question = load_question(bundled_bank() / name)
    assert wrong_ones(await check_question(executor(), question)) == {}


async def test_mistakes_of_a_question_are_found(tmp_path: Path) -> None:
    folder = write_question(
        tmp_path,
        python__starter__double_dot_py=FILES["python/solution/double.py"],
        python__solution__double_dot_py="def double(n):\n    return 2 * n if n < 20 else 0\n",
        python__wrong__constant__double_dot_py="def double(n):\n    return n + n\n",
    )
    assert wrong_ones(await check_question(executor(), load_question(folder))) == {
        "python solution": "it does not pass: hidden test large: Expected 42, but got 0.",
        "python starter": "it passes all tests, so there is nothing to do.",
        "python wrong/constant": "it passes all tests. Add a hidden test that it fails.",
    }


async def test_a_question_without_wrong_solutions_is_not_complete(tmp_path: Path) -> None:
    folder = write_question(
        tmp_path, python__wrong__constant__double_dot_py=None, python__wrong__square__double_dot_py=None
    )
    found = wrong_ones(await check_question(executor(), load_question(folder)))
    assert list(found) == ["python wrong"] and "Add python/wrong/NAME/" in found["python wrong"]


async def test_edited_tests_do_not_count(tmp_path: Path) -> None:
    """A candidate who makes the visible test always pass, and prints that all is well, has still failed."""
    question = load_question(write_question(tmp_path))
    work = as_files(
        {
            "double.py": "def double(n):\n    return 0\n",
            "test_double.py": "import unittest\n\n\nclass DoubleTest(unittest.TestCase):\n"
            "    def test_one(self):\n        pass\n",
        }
    )
    ran = await run_visible_tests(executor(), question, "python", work)
    assert [case.status for case in ran.cases] == ["failed"], ran


async def test_hidden_test_files_run_with_the_work(tmp_path: Path) -> None:
    hidden = (
        FILES["python/tests/test_double.py"].replace("test_one", "test_hidden").replace("(1), 2", "(9), 18")
    )
    question = load_question(write_question(tmp_path, python__hidden__test_hidden_dot_py=hidden))
    work = as_files({"double.py": "def double(n):\n    return {0: 0, 21: 42}.get(n)\n"})
    ran = await run_hidden_tests(executor(), question, "python", work)
    statuses = {case.name: case.status for case in ran.cases}
    assert statuses == {"zero": "passed", "large": "passed", "test_hidden.DoubleTest.test_hidden": "failed"}


async def test_a_slow_solution_is_measured(tmp_path: Path) -> None:
    generator = 'n = int(input())\nprint(\'{"name": "n", "call": "double", "args": [%d]}\' % n)\n'
    toml = FILES["question.toml"] + "\n[growth]\nsizes = [10, 1000, 2000, 4000]\nmax_exponent = 1.3\n"
    question = load_question(write_question(tmp_path, question_dot_toml=toml, growth_dot_py=generator))
    slow = as_files({"double.py": "def double(n):\n    return sum(1 for i in range(n) for j in range(n))\n"})
    fast = as_files({"double.py": "def double(n):\n    return 2 * n\n"})
    measured = await measure_growth(executor(), question, "python", slow)
    assert measured is not None and measured.is_slow and measured.exponent > 1.5, measured
    measured = await measure_growth(executor(), question, "python", fast)
    assert measured is not None and not measured.is_slow, measured


def test_the_exponent_of_growing_times() -> None:
    sizes = (10, 1000, 2000, 4000)
    quadratic = [0.02 + 1e-7 * size**2 for size in sizes]
    linear = [0.02 + 1e-4 * size for size in sizes]
    assert 1.9 < growth_exponent(sizes, quadratic) < 2.1
    assert 0.9 < growth_exponent(sizes, linear) < 1.1
    assert growth_exponent(sizes, [0.02, 0.021, 0.025, 0.05]) == 0  # too fast to be measured
    assert growth_exponent(sizes, []) == 0


async def test_a_generator_that_fails_is_an_error_of_the_question(tmp_path: Path) -> None:
    toml = FILES["question.toml"] + "\n[growth]\nsizes = [1, 2]\nmax_exponent = 1.3\n"
    folder = write_question(tmp_path, question_dot_toml=toml, growth_dot_py="print('no case')\n")
    question: Question = load_question(folder)
    found = wrong_ones(await check_question(executor(), question))
    assert "growth.py for size 1" in found["python solution"]


async def test_work_that_does_not_compile_fails_every_hidden_case() -> None:
    question = load_question(bundled_bank() / "meeting-rooms")
    work = as_files({"bookings.go": "package bookings\nfunc {"})
    ran = await run_hidden_tests(executor(), question, "go", work)
    assert (ran.passed, ran.total) == (0, len(question.hidden_cases))
    assert "does not compile" in ran.problem
