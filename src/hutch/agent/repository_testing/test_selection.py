"""Selects some of a repository's tests: files, single tests, or those that failed in an earlier run.

Each runner has options of its own for that. One whose options are unknown is refused clearly.
"""

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from hutch.agent.repository_testing.named_python_test_selection import (
    KnownCase,
    select_pytest,
    select_unittest,
)
from hutch.agent.repository_testing.runner_definition import Runner, with_words
from hutch.agent.repository_testing.test_results import name_in_file
from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.system.lazy_dataclass import dataclass

MAX_SELECTED = 500  # files or tests: more do not fit into one command
MAX_CHARS = 1000
NODE_FILES = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
SKIPPING = ("Jest", "Vitest", "node:test")  # report tests that were not selected as skipped
JVM_FILES = (".java", ".kt", ".groovy", ".scala")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tests to run; without anything, all."""

    files: tuple[str, ...] = ()  # or directories, of the workspace
    tests: tuple[str, ...] = ()  # names, as results have them
    failed: bool = False  # those that failed in the last run
    words: tuple[str, ...] = ()  # further arguments for the runner

    @property
    def is_all(self) -> bool:
        return not (self.files or self.tests or self.failed or self.words)

    def __post_init__(self) -> None:
        for name, values in (("file", self.files), ("test", self.tests)):
            if len(values) > MAX_SELECTED:
                raise BadRequest(f"{len(values)} {name}s are too many: give at most {MAX_SELECTED}.")
            for value in values:
                if not value.strip() or len(value) > MAX_CHARS or "\0" in value or value.startswith("-"):
                    raise BadRequest(f"{echo(value)} cannot be the name of a {name}.")


def select(runners: Sequence[Runner], selection: Selection, known: Sequence[KnownCase] = ()) -> list[Runner]:
    """The runners that have selected tests, each with the arguments for them.

    `known` are tests of the last run: those that failed, or those that `selection.tests` names.
    """
    if selection.words:
        return [with_words(runners[0], selection.words)]
    if selection.is_all:
        return list(runners)
    chosen, refused = [], []
    for runner in runners:
        cases = [case for case in known if case.suite == runner.suite]
        named = () if known or selection.failed else selection.tests
        files = _own_files(runner, selection.files)
        if (selection.files and not files) or not (cases or named or files):
            continue
        if "." in files:
            chosen.append(runner)
            continue
        options = OPTIONS.get(runner.name)
        if options is None:
            refused.append(runner)
            continue
        chosen.append(_with(runner, options(runner, files, cases, named)))
        if runner.name in SKIPPING:
            chosen[-1] = replace(chosen[-1], only=(*(case.name for case in cases), *named))
    if refused and not chosen:
        raise BadRequest(
            f"`{refused[0]}` cannot run single files or tests: Hutch does not know its options. Run all "
            "tests, or set tests.command to a runner that can."
        )
    if not chosen:
        wanted = ", ".join(map(echo, (selection.files or selection.tests)[:3]))
        raise BadRequest(f"No test runner of this repository runs {wanted or 'these tests'}.")
    return chosen


def _with(runner: Runner, words: Sequence[str]) -> Runner:
    if runner.name == "ctest":  # its options follow a script
        return replace(runner, argv=(*runner.argv, *words), shown=f"ctest {' '.join(words)}")
    if runner.name == "unittest":  # the options are those of Hutch's own program
        shown = [word.partition("=")[2] for word in words if word.startswith("--only-")]
        return replace(with_words(runner, words), shown=f"{runner.shown} {shlex.join(shown)}")
    return with_words(runner, words)


def _own_files(runner: Runner, files: Sequence[str]) -> list[str]:
    """Those of the files that a runner may have tests in, relative to its directory."""
    suffixes = SUFFIXES.get(runner.name, ())
    found = []
    for file in files:
        path = posixpath.normpath(file)
        if path.startswith("../") or path in ("..",) or path.startswith("/"):
            raise BadRequest(f"{echo(file)} is not a path in the workspace. Name it relative to its root.")
        if runner.directory:
            inside = posixpath.relpath(path, runner.directory)
            if inside.startswith(".."):
                if runner.directory.startswith(f"{path}/") or path == ".":
                    inside = "."
                else:
                    continue
            path = inside
        suffix = posixpath.splitext(path)[1]
        if not suffixes or not suffix or suffix in suffixes:
            found.append(path)
    return found


Options = Callable[[Runner, Sequence[str], Sequence[KnownCase], Sequence[str]], list[str]]


def _go(runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]) -> list[str]:
    places = [posixpath.dirname(file) if file.endswith(".go") else f"{file}/..." for file in files]
    packages = [f"./{place}" if place else "." for place in places]
    pairs = [case.id.partition(" ") for case in cases]
    packages += [package for package, _, _ in pairs]
    # A subtest runs with the whole test that it belongs to.
    names = [test for _, _, test in pairs if test] + [name.rpartition(".")[2] for name in named]
    tests = sorted({re.escape(name.split("/")[0]) for name in names})
    return [*(["-run", f"^({'|'.join(tests)})$"] if tests else []), *(dict.fromkeys(packages) or ["./..."])]


def _jest(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    paths = [*files, *(case.file for case in cases if case.file)]
    places = [posixpath.relpath(path, runner.directory or ".") for path in dict.fromkeys(paths)]
    names = _pattern([case.id for case in cases] + list(named), start="^", end="$" if cases else "")
    is_file = all(posixpath.splitext(place)[1] for place in places)  # a directory is a pattern
    option = ["--runTestsByPath"] if places and is_file else []
    return [*(["-t", names] if names else []), *option, *places]


def _vitest(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    names = [name_in_file(case.name) for case in cases]
    given = [name_in_file(name) for name in named]
    pattern = _pattern(names, start="(?:^| )", end="$") if cases else _pattern(given)
    return [*files, *(["-t", pattern] if pattern else [])]


def _node(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    names = [case.id for case in cases] + [name.rpartition(" > ")[2] for name in named]
    return [*(f"--test-name-pattern={_pattern([name], start='(?:^| )', end='$')}" for name in names), *files]


def _cargo(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    targets = []
    for file in files:
        found = re.fullmatch(r"(?:.*/)?tests/([\w-]+)\.rs", file)
        if not found:
            raise BadRequest(f"cargo can run the tests of a file in tests/, not those of {echo(file)}.")
        targets += ["--test", found[1]]
    exact = ["--exact", *(case.id for case in cases)] if cases else []
    return [*targets, *(["--", *exact, *named] if exact or named else [])]


def _ctest(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    if files:
        raise BadRequest("ctest cannot run the tests of single files. Name tests instead.")
    return ["-R", _pattern([*(case.name for case in cases), *named], start="^", end="$")]


def _maven(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    classes = [posixpath.splitext(posixpath.basename(file))[0] for file in files]
    methods = ["#".join(name.rpartition(".")[::2]) for name in [*(case.name for case in cases), *named]]
    return [f"-Dtest={','.join([*classes, *(name.lstrip('#') for name in methods)])}"]


def _gradle(
    runner: Runner, files: Sequence[str], cases: Sequence[KnownCase], named: Sequence[str]
) -> list[str]:
    classes = [f"*{posixpath.splitext(posixpath.basename(file))[0]}" for file in files]
    return _each("--tests", [*classes, *(case.name for case in cases), *named])


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _pattern(names: Sequence[str], *, start: str = "", end: str = "") -> str:
    """A regular expression that matches exactly these names, as every runner reads it."""
    escaped = [re.sub(r"([.*+?^${}()|\[\]\\])", r"\\\1", name) for name in names]
    return f"{start}({'|'.join(escaped)}){end}" if escaped else ""


OPTIONS: dict[str, Options] = {
    "pytest": select_pytest,
    "unittest": select_unittest,
    "go test": _go,
    "Jest": _jest,
    "Vitest": _vitest,
    "node:test": _node,
    "cargo test": _cargo,
    "ctest": _ctest,
    "Maven": _maven,
    "Gradle": _gradle,
}
SUFFIXES: dict[str, tuple[str, ...]] = {
    "pytest": (".py",),
    "unittest": (".py",),
    "go test": (".go",),
    "Jest": NODE_FILES,
    "Vitest": NODE_FILES,
    "node:test": NODE_FILES,
    "cargo test": (".rs",),
    "Maven": JVM_FILES,
    "Gradle": JVM_FILES,
}
