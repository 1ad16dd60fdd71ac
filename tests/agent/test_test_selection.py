"""The arguments with which each runner runs some of its tests."""

import pytest

from hutch.agent.repository_testing.named_python_test_selection import KnownCase
from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.test_results import Case, Counts
from hutch.agent.repository_testing.test_selection import MAX_SELECTED, Selection, select
from hutch.domain.errors import BadRequest

RUNNERS = {
    name: Runner(name, ("run",), "junit", None, "run")
    for name in (
        "pytest",
        "unittest",
        "go test",
        "Jest",
        "Vitest",
        "node:test",
        "cargo test",
        "Maven",
        "Gradle",
        "ctest",
    )
}


def words(runner: str, selection: Selection, *known: KnownCase) -> list[str]:
    (chosen,) = select([RUNNERS[runner]], selection, known)
    return list(chosen.words[1:])


@pytest.mark.parametrize(
    ("runner", "file", "expected"),
    [
        ("pytest", "tests/test_a.py", ["tests/test_a.py"]),
        ("unittest", "tests/test_a.py", ["--only-file=tests/test_a.py"]),
        ("go test", "pkg/a_test.go", ["./pkg"]),
        ("go test", "a_test.go", ["."]),
        ("Jest", "src/a.test.js", ["--runTestsByPath", "src/a.test.js"]),
        ("Vitest", "src/a.test.ts", ["src/a.test.ts"]),
        ("node:test", "a.test.js", ["a.test.js"]),
        ("cargo test", "tests/api.rs", ["--test", "api"]),
        ("Maven", "src/test/java/ATest.java", ["-Dtest=ATest"]),
        ("Gradle", "src/test/java/ATest.java", ["--tests", "*ATest"]),
    ],
)
def test_files(runner: str, file: str, expected: list[str]) -> None:
    assert words(runner, Selection(files=(file,))) == expected


@pytest.mark.parametrize(
    ("runner", "name", "expected"),
    [
        ("pytest", "tests/test_a.py::test_x", ["tests/test_a.py::test_x"]),
        ("pytest", "test_x", ["-k", "test_x"]),
        ("pytest", "tests.test_a.A.test_x", ["tests/test_a.py::A::test_x"]),
        ("pytest", "test_a.test_x[1.5-b]", ["test_a.py::test_x[1.5-b]"]),
        ("unittest", "test_a.A.test_x", ["--only-test=test_a.A.test_x"]),
        ("go test", "example.com/x.TestA/sub", ["-run", "^(TestA)$", "./..."]),
        ("Jest", "adds (1+1)", ["-t", r"^(adds \(1\+1\))"]),
        ("Vitest", "add > adds", ["-t", "(add adds)"]),
        ("node:test", "group > inner", ["--test-name-pattern=(?:^| )(inner)$"]),
        ("cargo test", "tests::it_works", ["--", "tests::it_works"]),
        ("Maven", "org.x.ATest.adds", ["-Dtest=org.x.ATest#adds"]),
        ("Gradle", "org.x.ATest.adds", ["--tests", "org.x.ATest.adds"]),
        ("ctest", "adds", ["-R", "^(adds)$"]),
    ],
)
def test_tests_by_name(runner: str, name: str, expected: list[str]) -> None:
    assert words(runner, Selection(tests=(name,))) == expected


@pytest.mark.parametrize(
    ("runner", "case", "expected"),
    [
        ("pytest", KnownCase("pytest", "a.T.x", "a.py", "a.py::T::x"), ["a.py::T::x"]),
        ("go test", KnownCase("go test", "m/p.TestA", "", "m/p TestA"), ["-run", "^(TestA)$", "m/p"]),
        (
            "Jest",
            KnownCase("Jest", "adds", "src/a.test.js", "adds"),
            ["-t", "^(adds)$", "--runTestsByPath", "src/a.test.js"],
        ),
        ("cargo test", KnownCase("cargo test", "m::t", "", "m::t"), ["--", "--exact", "m::t"]),
    ],
)
def test_tests_that_failed_before(runner: str, case: KnownCase, expected: list[str]) -> None:
    assert words(runner, Selection(failed=True), case) == expected


def test_tests_that_were_not_selected_are_no_skipped_tests() -> None:
    outcomes = (("a.test.ts.adds", "passed"), ("a.test.ts.lost", "skipped"), ("b.test.ts.adds", "skipped"))
    counts = Counts(passed=1, skipped=2, cases=tuple(Case(name, outcome) for name, outcome in outcomes))
    (runner,) = select([Runner("Vitest", ("vitest",), "junit")], Selection(tests=("adds",)))
    found = counts.only(runner.only)
    assert (found.passed, found.skipped) == (1, 1)
    assert [case.name for case in found.cases] == ["a.test.ts.adds", "b.test.ts.adds"]


def test_only_suites_with_selected_tests_run() -> None:
    below = Runner("pytest", ("run",), "pytest", None, "run", directory="libs/a")
    runners = [RUNNERS["Jest"], below, RUNNERS["go test"]]
    (python,) = select(runners, Selection(files=("libs/a/test_x.py",)))
    assert (python.suite, python.words[1:]) == ("pytest in libs/a", ("test_x.py",))
    chosen = select(runners, Selection(files=("libs",)))
    assert [runner.suite for runner in chosen] == ["Jest", "pytest in libs/a", "go test"]
    assert [list(runner.words[1:]) for runner in chosen] == [["libs"], [], ["./libs/..."]]


@pytest.mark.parametrize("name", ["make", "npm test", "tests.command"])
def test_a_runner_with_unknown_options_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match=f"`{name}` cannot run single files or tests"):
        select([Runner(name, (name,), "summary", None, name)], Selection(tests=("a",)))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (lambda: Selection(files=("../x.py",)), "not a path in the workspace"),
        (lambda: Selection(files=("/etc/passwd",)), "not a path in the workspace"),
        (lambda: Selection(files=("-p",)), "cannot be the name of a file"),
        (lambda: Selection(tests=("-x",)), "cannot be the name of a test"),
        (lambda: Selection(tests=("a\0",)), "cannot be the name of a test"),
        (lambda: Selection(tests=("a; b",)), "no name for pytest"),
        (lambda: Selection(files=("a.js",)), "No test runner of this repository runs 'a.js'"),
        (lambda: Selection(files=("a",) * (MAX_SELECTED + 1)), "too many"),
    ],
)
def test_odd_selections_are_refused(selection: object, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        select([RUNNERS["pytest"]], selection())  # type: ignore[operator]
