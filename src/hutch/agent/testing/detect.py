"""Which runner a repository uses, from the files it has. Nothing of it is run to find out."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal

from hutch.domain.errors import NotFound

Reader = Literal["junit", "go", "jest", "tap", "cargo", "summary"]
ReadFile = Callable[[str], bytes | None]  # a file of the workspace, None when there is none
REPORT = "/tmp/hutch-tests.report"
# A runner of the repository's own, or else one of the jail's. npx asks the network for one that is not there,
# whatever it is told, and waits for an answer that does not come.
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
    """How to run tests: words of a command, and how its results are read."""

    name: str
    argv: tuple[str, ...]
    reader: Reader
    report: str | None = None  # the file that it writes, as seen in the jail; None: what it prints
    shown: str = ""  # the command as people would write it
    all_tests: tuple[str, ...] = ()  # the words that stand for all tests, where some are needed

    def __str__(self) -> str:
        return self.shown or " ".join(self.argv)

    @property
    def words(self) -> tuple[str, ...]:
        """What to start."""
        return (*self.argv, *self.all_tests)

    @property
    def surely_tells(self) -> bool:
        """Whether a run that leaves no counts cannot have been one."""
        return self.reader != "summary"


def detect(read: ReadFile, names: Sequence[str], *, command: str | None = None) -> Runner:
    """The runner of a repository. `names` are the paths in its top directory and `tests`."""
    if command:
        return _configured(command)
    for find in (_node, _go, _cargo, _python):
        if runner := find(read, names):
            return runner
    raise NotFound(
        "No tests were found: neither pytest nor unittest, Jest, Vitest, node:test, go.mod or Cargo.toml. "
        "Run them with bash, or set tests.command in .hutch/config.toml."
    )


def with_words(runner: Runner, words: Sequence[str]) -> Runner:
    """The same, for some of the tests."""
    if not words:
        return runner
    if runner.name == "tests.command":
        script = f'{runner.argv[-1]} "$@"'
        return replace(runner, argv=(*runner.argv[:-1], script, "tests", *words), shown=_shown(runner, words))
    return replace(runner, argv=(*runner.argv, *words), all_tests=(), shown=_shown(runner, words))


def _shown(runner: Runner, words: Sequence[str]) -> str:
    return f"{runner} {shlex.join(words)}"


def _configured(command: str) -> Runner:
    """A command that somebody set; what it runs is recognised where that is plain."""
    if found := re.fullmatch(r"((?:\S*python[\d.]* -m )?\S*pytest)((?: [^|;&<>$`]*)?)", command.strip()):
        words = [*found[1].split(), f"--junitxml={REPORT}", *found[2].split()]
        return Runner("pytest", tuple(words), "junit", REPORT, command)
    if found := re.fullmatch(r"go test((?: [^|;&<>$`]*)?)", command.strip()):
        return Runner("go test", ("go", "test", "-json", *found[1].split()), "go", None, command)
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
        return Runner("Vitest", argv, "junit", REPORT, "npx vitest run")
    if "jest" in known or re.search(r"\bjest\b", script):
        argv = _installed("Jest", "jest", "--json", f"--outputFile={REPORT}")
        return Runner("Jest", argv, "jest", REPORT, "npx jest")
    if "node --test" in script or (
        not script and any(re.search(r"\.test\.[cm]?js$", name) for name in names)
    ):
        return Runner("node:test", ("node", "--test", "--test-reporter=tap"), "tap", None, "node --test")
    if script and "no test specified" not in script:
        return Runner("npm test", ("npm", "test", "--silent", "--"), "summary", None, "npm test")
    return None


def _installed(name: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", INSTALLED, "tests", name, *words)


def _go(read: ReadFile, names: Sequence[str]) -> Runner | None:
    if "go.mod" not in names:
        return None
    return Runner("go test", ("go", "test", "-json"), "go", None, "go test", ("./...",))


def _cargo(read: ReadFile, names: Sequence[str]) -> Runner | None:
    return Runner("cargo test", ("cargo", "test"), "cargo") if "Cargo.toml" in names else None


def _python(read: ReadFile, names: Sequence[str]) -> Runner | None:
    tests = [name for name in names if re.search(r"(^|/)(test_\w+|\w+_test)\.py$", name)]
    conftest = any(name.rpartition("/")[2] == "conftest.py" for name in names)
    if not (tests or _names_pytest(read) or conftest):
        return None
    python = next((f"{env}/bin/python" for env in (".venv", "venv") if env in names), "python3")
    uses_pytest = _names_pytest(read) or conftest or _imports_pytest(read, tests)
    if uses_pytest:
        words = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={REPORT}")
        return Runner("pytest", words, "junit", REPORT, f"{python} -m pytest")
    source = resources.files("hutch.agent.testing").joinpath("unittest_junit.py").read_text()
    argv = (python, "-c", source, REPORT)
    return Runner("unittest", argv, "junit", REPORT, f"{python} -m unittest", _discover(names, tests))


def _discover(names: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """How unittest finds these: it does not enter a directory that is not a package."""
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
