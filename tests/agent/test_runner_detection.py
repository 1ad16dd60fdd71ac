"""Which suites a repository has, by its files."""

import pytest

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.agent.repository_testing.runner_detection import MAX_SUITES, detect_all

JEST = b'{"devDependencies": {"jest": "1"}}'
PYTEST = b"[tool.pytest.ini_options]\n"


def suites(files: dict[str, bytes], command: str | None = None, report: str = "") -> list[Runner]:
    return list(detect_all(files.get, list(files), command=command, report=report))


def names(files: dict[str, bytes]) -> list[str]:
    return [runner.suite for runner in suites(files)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pom.xml": b""}, "mvn test"),
        ({"pom.xml": b"", "mvnw": b""}, "./mvnw test"),
        ({"build.gradle.kts": b""}, "gradle test"),
        ({"settings.gradle": b"", "gradlew": b""}, "./gradlew test"),
        ({"CMakeLists.txt": b"project(x)\nenable_testing()\n"}, "ctest"),
        ({"Makefile": b"all:\n\ntest: all\n\techo\n"}, "make test"),
        ({"Makefile": b"check:\n\techo\n"}, "make check"),
        ({"package.json": b'{"scripts": {"test": "ava"}}', "pnpm-lock.yaml": b""}, "pnpm test"),
        ({"package.json": b'{"scripts": {"test": "ava"}}', "yarn.lock": b""}, "yarn test"),
        ({"package.json": b'{"scripts": {"test": "ava"}}'}, "npm test"),
        ({"Cargo.toml": b"[workspace]\n"}, "cargo test --workspace"),
    ],
)
def test_build_tools_are_found(files: dict[str, bytes], expected: str) -> None:
    assert [str(runner) for runner in suites(files)] == [expected]


@pytest.mark.parametrize(
    "files",
    [
        {"Makefile": b"test := 1\n"},
        {"CMakeLists.txt": b"project(x)\n"},
        {"package.json": b'{"scripts": {"test": "echo no test specified"}}'},
        {"package.json": b"[" * 100_000},
        {"node_modules/x/package.json": JEST, "vendor/y/go.mod": b"", "vendor/y/a_test.go": b""},
        {"a/b/c/d/e/package.json": JEST},
    ],
)
def test_files_that_name_no_tests_are_no_suite(files: dict[str, bytes]) -> None:
    assert suites(files) == []


def test_packages_below_the_root_are_suites_of_their_own() -> None:
    files = {
        "package.json": b'{"workspaces": ["packages/*"]}',
        "packages/a/package.json": JEST,
        "packages/b/package.json": b'{"scripts": {"test": "node --test"}}',
        "tools/go.mod": b"",
        "tools/x_test.go": b"",
        "libs/one/pyproject.toml": PYTEST,
        "libs/one/tests/test_a.py": b"import pytest",
        "libs/two/pyproject.toml": PYTEST,
        "libs/two/tests/test_a.py": b"import pytest",
    }
    assert names(files) == [
        "Jest in packages/a",
        "node:test in packages/b",
        "go test in tools",
        "pytest in libs/one",
        "pytest in libs/two",
    ]
    (go,) = [runner for runner in suites(files) if runner.name == "go test"]
    assert (str(go), go.words) == ("cd tools && go test", ("go", "test", "-json", "./..."))


def test_a_runner_above_covers_the_packages_below() -> None:
    assert names({"package.json": JEST, "packages/a/package.json": JEST}) == ["Jest"]
    python = {"pyproject.toml": PYTEST, "libs/one/pyproject.toml": PYTEST, "libs/one/test_a.py": b""}
    assert names(python) == ["pytest"]
    # A module of go ends where the next begins.
    assert names({"go.mod": b"", "x/go.mod": b"", "x/a_test.go": b"", "y/go.mod": b""}) == [
        "go test",
        "go test in x",
    ]


def test_every_language_of_the_root_has_its_suite_and_make_none() -> None:
    files = {"package.json": JEST, "go.mod": b"", "test_a.py": b"import unittest", "Makefile": b"test:\n"}
    assert names(files) == ["Jest", "go test", "unittest"]


def test_make_is_used_below_the_root_where_nothing_else_is_found() -> None:
    target = {"engine/Makefile": b"test:\n", "engine/sub/Makefile": b"test:\n"}
    assert names(target) == ["make in engine"]
    beside = {"web/package.json": JEST, "web/Makefile": b"test:\n", **target}
    assert [runner.directory for runner in suites(beside)] == ["web", "engine"]
    assert [runner.directory for runner in suites({**beside, "Makefile": b"test:\n"})] == ["web"]
    assert [runner.directory for runner in suites({"package.json": JEST, **target})] == [""]


def test_the_number_of_suites_is_bounded() -> None:
    assert len(suites({f"p{number}/package.json": JEST for number in range(100)})) == MAX_SUITES


def test_projects_below_use_the_environment_of_the_repository() -> None:
    files = {".venv": b"", "libs/one/pyproject.toml": PYTEST, "libs/one/test_a.py": b"import pytest"}
    assert suites(files)[0].words[0] == "../../.venv/bin/python"


def test_a_report_belongs_to_a_command_or_to_an_unknown_script() -> None:
    (own,) = suites({"package.json": JEST}, "bin/check", "out/*.xml")
    assert (own.name, own.reader, own.reports) == ("tests.command", "any", "out/*.xml")
    (make,) = suites({"Makefile": b"test:\n"}, report="out/*.xml")
    assert (make.name, make.reader, make.reports) == ("make", "any", "out/*.xml")
    (jest,) = suites({"package.json": JEST}, report="out/*.xml")
    assert (jest.reader, jest.reports) == ("jest", "")
