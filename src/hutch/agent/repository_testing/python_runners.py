"""The test runners of Python projects: pytest and unittest."""

import json
import re
import tomllib
from collections.abc import Sequence
from importlib import resources

from hutch.agent.repository_testing.runner_definition import REPORT, ReadFile, Runner

TEST_FILE = re.compile(r"(^|/)(test_\w+|\w+_test)\.py$")
# Only the older of pytest's two formats has the file and line of each test.
JUNIT_OPTIONS = (f"--junitxml={REPORT}", "-o", "junit_family=xunit1")
ENVIRONMENTS = (".venv", "venv")


def python_runner(read: ReadFile, names: Sequence[str], *, above: str = "") -> Runner | None:
    """The runner of the project in a directory. `above` is the path from there to an environment of the
    whole repository, if it has one."""
    tests = [name for name in names if TEST_FILE.search(name)]
    conftest = any(name.rpartition("/")[2] == "conftest.py" for name in names)
    if not (tests or names_pytest(read) or conftest):
        return None
    own = next((f"{env}/bin/python" for env in ENVIRONMENTS if env in names), "")
    python = own or (f"{above}/bin/python" if above else "python3")
    if names_pytest(read) or conftest or _imports_pytest(read, tests):
        words = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *JUNIT_OPTIONS)
        version = (python, "-m", "pytest", "--version")
        return Runner("pytest", words, "pytest", REPORT, f"{python} -m pytest", version=version)
    source = (
        resources.files("hutch.agent.repository_testing").joinpath("unittest_junit_runner.py").read_text()
    )
    argv = (python, "-c", source, REPORT)
    shown, all_tests = f"{python} -m unittest", _discover(names, tests)
    return Runner("unittest", argv, "junit", REPORT, shown, all_tests, version=(python, "--version"))


def configured_pytest(command: str) -> Runner | None:
    """The runner for a `tests.command` that is a plain call of pytest."""
    found = re.fullmatch(r"((?:\S*python[\d.]* -m )?\S*pytest)((?: [^|;&<>$`]*)?)", command.strip())
    if not found:
        return None
    words = [*found[1].split(), *JUNIT_OPTIONS, *found[2].split()]
    version = (*found[1].split(), "--version")
    return Runner("pytest", tuple(words), "pytest", REPORT, command, version=version)


def names_pytest(read: ReadFile) -> bool:
    """True if the settings of a project mention pytest."""
    if read("pytest.ini") is not None:
        return True
    if b"[tool:pytest]" in (read("setup.cfg") or b"") or b"[pytest]" in (read("tox.ini") or b""):
        return True
    try:
        project = tomllib.loads((read("pyproject.toml") or b"").decode())
    except (ValueError, RecursionError):
        return False
    return "pytest" in project.get("tool", {}) or "pytest" in json.dumps(
        [project.get("dependency-groups"), project.get("project", {}).get("optional-dependencies")],
        default=str,
    )


def _discover(names: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """The arguments with which unittest finds these: it does not enter a directory without __init__.py."""
    folders = {name.rpartition("/")[0].split("/")[0] for name in tests}
    pattern = () if any(re.search(r"(^|/)test\w*\.py$", name) for name in tests) else ("-p", "*_test.py")
    if len(folders) == 1 and (folder := folders.pop()) and f"{folder}/__init__.py" not in names:
        return ("discover", "-s", folder, *pattern)
    return ("discover", *pattern)


def _imports_pytest(read: ReadFile, tests: Sequence[str]) -> bool:
    """True if the first tests look like pytest's rather than unittest's."""
    texts = [read(name) or b"" for name in tests[:5]]
    return any(re.search(rb"^\s*(import|from) pytest\b", text, re.M) for text in texts) or not any(
        b"unittest" in text for text in texts
    )
