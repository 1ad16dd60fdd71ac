"""Detects the test runner of a repository from its files, without running any of them."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal

from hutch.domain.errors import NotFound

Reader = Literal["junit", "go", "jest", "tap", "cargo", "summary"]
ReadFile = Callable[[str], bytes | None]  # a file of the workspace, None when there is none
REPORT = "/tmp/hutch-tests.report"
NODE_TEST = ("node", "--test", "--test-reporter=tap")  # an old Node refuses these options
GO_VERSION = ("go", "version")
NO_TESTS = (
    "No tests were found: neither pytest nor unittest, Jest, Vitest, node:test, go.mod or Cargo.toml. "
    "Run them with bash, or set tests.command in .hutch/config.toml."
)
# Starts the repository's own runner, or else the jail's. npx is no choice: for a missing runner it asks the
# network despite its options, and waits for an answer that never comes.
INSTALLED = """name=$1 bin=$2 at=$PWD
shift 2
while :; do
    found=$at/node_modules/.bin
    [ -x "$found/$bin" ] && PATH=$found:$PATH exec "$found/$bin" "$@"
    [ "$at" ] || break
    at=${at%/*}
done
command -v -- "$bin" >/dev/null && exec "$bin" "$@"
echo "$name is not installed: there is no node_modules/.bin/$bin." >&2
exit 127"""


@dataclass(frozen=True, slots=True)
class Runner:
    """How to run tests: the words of a command, and the reader for its results."""

    name: str
    argv: tuple[str, ...]
    reader: Reader
    report: str | None = None  # the path of its report in the jail; None: its output
    shown: str = ""  # the command as users would write it
    all_tests: tuple[str, ...] = ()  # the arguments that select all tests, where needed
    version: tuple[str, ...] = ()  # the command that prints the version of the runner and runs no tests

    def __str__(self) -> str:
        return self.shown or " ".join(self.argv)

    @property
    def words(self) -> tuple[str, ...]:
        """The command to start."""
        return (*self.argv, *self.all_tests)

    @property
    def always_counts(self) -> bool:
        """Whether every real run of this runner reports counts."""
        return self.reader != "summary"


def detect(read: ReadFile, names: Sequence[str], *, command: str | None = None) -> Runner:
    """The runner of a repository. `names` are the paths in its top directory and `tests`."""
    for runner in detect_all(read, names, command=command):
        return runner
    raise NotFound(NO_TESTS)


def detect_all(read: ReadFile, names: Sequence[str], *, command: str | None = None) -> Iterator[Runner]:
    """All runners that a repository has tests for; `detect` takes the first."""
    if command:
        yield _configured(command)
        return
    for find in (_node, _go, _cargo, _python):
        if runner := find(read, names):
            yield runner


def with_words(runner: Runner, words: Sequence[str]) -> Runner:
    """The runner with arguments that select some of the tests."""
    if not words:
        return runner
    if runner.name == "tests.command":
        script = f'{runner.argv[-1]} "$@"'
        return replace(runner, argv=(*runner.argv[:-1], script, "tests", *words), shown=_shown(runner, words))
    return replace(runner, argv=(*runner.argv, *words), all_tests=(), shown=_shown(runner, words))


def _shown(runner: Runner, words: Sequence[str]) -> str:
    return f"{runner} {shlex.join(words)}"


def _configured(command: str) -> Runner:
    """The runner for `tests.command`; plain calls of pytest and go test are recognised."""
    if found := re.fullmatch(r"((?:\S*python[\d.]* -m )?\S*pytest)((?: [^|;&<>$`]*)?)", command.strip()):
        words = [*found[1].split(), f"--junitxml={REPORT}", *found[2].split()]
        version = (*found[1].split(), "--version")
        return Runner("pytest", tuple(words), "junit", REPORT, command, version=version)
    if found := re.fullmatch(r"go test((?: [^|;&<>$`]*)?)", command.strip()):
        words = ["go", "test", "-json", *found[1].split()]
        return Runner("go test", tuple(words), "go", None, command, version=GO_VERSION)
    return Runner("tests.command", ("/bin/bash", "-c", command), "summary", None, command)


def _node(read: ReadFile, names: Sequence[str]) -> Runner | None:
    raw = read("package.json")
    if raw is None:
        return None
    try:
        package = json.loads(raw)
        script = str((package.get("scripts") or {}).get("test", ""))
        known = {*(package.get("dependencies") or {}), *(package.get("devDependencies") or {})}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
    if "vitest" in known or re.search(r"\bvitest\b", script):
        argv = _installed("Vitest", "vitest", "run", "--reporter=junit", f"--outputFile={REPORT}")
        version = _installed("Vitest", "vitest", "--version")
        return Runner("Vitest", argv, "junit", REPORT, "npx vitest run", version=version)
    if "jest" in known or re.search(r"\bjest\b", script):
        argv = _installed("Jest", "jest", "--json", f"--outputFile={REPORT}")
        version = _installed("Jest", "jest", "--version")
        return Runner("Jest", argv, "jest", REPORT, "npx jest", version=version)
    if "node --test" in script or (
        not script and any(re.search(r"\.test\.[cm]?js$", name) for name in names)
    ):
        version = (*NODE_TEST, "--version")
        return Runner("node:test", NODE_TEST, "tap", None, "node --test", version=version)
    if script and "no test specified" not in script:
        argv = ("npm", "test", "--silent", "--")
        return Runner("npm test", argv, "summary", None, "npm test", version=("npm", "--version"))
    return None


def _installed(name: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", INSTALLED, "tests", name, *words)


def _go(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "go.mod" not in names:
        return None
    words = ("go", "test", "-json")
    return Runner("go test", words, "go", None, "go test", ("./...",), version=GO_VERSION)


def _cargo(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "Cargo.toml" not in names:
        return None
    return Runner("cargo test", ("cargo", "test"), "cargo", version=("cargo", "--version"))


def _python(read: ReadFile, names: Sequence[str]) -> Runner | None:
    tests = [name for name in names if re.search(r"(^|/)(test_\w+|\w+_test)\.py$", name)]
    conftest = any(name.rpartition("/")[2] == "conftest.py" for name in names)
    if not (tests or _names_pytest(read) or conftest):
        return None
    python = next((f"{env}/bin/python" for env in (".venv", "venv") if env in names), "python3")
    uses_pytest = _names_pytest(read) or conftest or _imports_pytest(read, tests)
    if uses_pytest:
        words = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={REPORT}")
        version = (python, "-m", "pytest", "--version")
        return Runner("pytest", words, "junit", REPORT, f"{python} -m pytest", version=version)
    source = resources.files("hutch.agent.testing").joinpath("unittest_junit.py").read_text()
    argv = (python, "-c", source, REPORT)
    shown, all_tests = f"{python} -m unittest", _discover(names, tests)
    return Runner("unittest", argv, "junit", REPORT, shown, all_tests, version=(python, "--version"))


def _discover(names: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """The arguments with which unittest finds these: it does not enter a directory without __init__.py."""
    folders = {name.rpartition("/")[0].split("/")[0] for name in tests}
    pattern = () if any(re.search(r"(^|/)test\w*\.py$", name) for name in tests) else ("-p", "*_test.py")
    if len(folders) == 1 and (folder := folders.pop()) and f"{folder}/__init__.py" not in names:
        return ("discover", "-s", folder, *pattern)
    return ("discover", *pattern)


def _names_pytest(read: ReadFile) -> bool:
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


def _imports_pytest(read: ReadFile, tests: Sequence[str]) -> bool:
    """Whether the first tests look like pytest's rather than unittest's."""
    texts = [read(name) or b"" for name in tests[:5]]
    return any(re.search(rb"^\s*(import|from) pytest\b", text, re.M) for text in texts) or not any(
        b"unittest" in text for text in texts
    )
