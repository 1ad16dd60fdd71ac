"""Detects the test runners of a repository from its files, without running any of them.

A repository may have several: one per language, and one per package below the root. They run after each
other. A package below is left out if the runner above it covers it: pytest enters every directory, and a
package.json with a test script tests its workspaces.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from hutch.agent.repository_testing.build_tool_runners import (
    GRADLE_FILES,
    MAKE_FILES,
    cargo_runner,
    configured_go,
    ctest_runner,
    go_runner,
    gradle_runner,
    make_runner,
    maven_runner,
)
from hutch.agent.repository_testing.node_runners import node_runner
from hutch.agent.repository_testing.python_runners import (
    ENVIRONMENTS,
    TEST_FILE,
    configured_pytest,
    names_pytest,
    python_runner,
)
from hutch.agent.repository_testing.runner_definition import CONFIGURED, ReadFile, Runner
from hutch.domain.errors import NotFound

NO_TESTS = (
    "No tests were found: neither pytest nor unittest, Jest, Vitest, node:test, go.mod, Cargo.toml, Maven, "
    "Gradle, ctest or a make target. Run them with bash, or set tests.command in .hutch/config.toml."
)
MAX_DEPTH = 4  # of a package below the root
MAX_SUITES = 20
SKIPPED = frozenset(
    {"node_modules", "vendor", "target", "dist", "build", "testdata", "fixtures", "third_party"}
)
PYTHON_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini")
Find = Callable[[ReadFile, Sequence[str]], Runner | None]


def detect(read: ReadFile, names: Sequence[str], *, command: str | None = None, report: str = "") -> Runner:
    """The first runner of a repository. `names` are the paths of its files."""
    for runner in detect_all(read, names, command=command, report=report):
        return runner
    raise NotFound(NO_TESTS)


def detect_all(
    read: ReadFile, names: Sequence[str], *, command: str | None = None, report: str = ""
) -> Iterator[Runner]:
    """All runners that a repository has tests for, those of its root first."""
    if command:
        yield _configured(command, report)
        return
    for runner in islice(_found(read, names), MAX_SUITES):
        is_unknown = report and runner.reader == "summary"
        yield replace(runner, reports=report, reader="any") if is_unknown else runner


def _configured(command: str, report: str) -> Runner:
    """The runner for `tests.command`; plain calls of pytest and go test are recognised."""
    if not report and (known := configured_pytest(command) or configured_go(command)):
        return known
    argv = ("/bin/bash", "-c", command)
    return Runner(CONFIGURED, argv, "any" if report else "summary", None, command, reports=report)


def _found(read: ReadFile, names: Sequence[str]) -> Iterator[Runner]:
    tree = _Tree(read, names)
    places: set[str] = set()
    for find in (tree.node, tree.go, tree.cargo, tree.maven, tree.gradle, tree.ctest, tree.python):
        for runner in find():
            places.add(runner.directory)
            yield runner
    yield from tree.make(places)


class _Tree:
    """The files of a repository by directory."""

    def __init__(self, read: ReadFile, names: Sequence[str]) -> None:
        self._read = read
        self._names = names
        self._below: Mapping[str, list[str]] = _directories(names)

    def node(self) -> Iterator[Runner]:
        yield from self._outermost(
            "package.json", lambda read, names: node_runner(read, names, root=self._read)
        )

    def go(self) -> Iterator[Runner]:
        for directory in self._with("go.mod"):  # each module is tested alone: `./...` ends at the next one
            if not directory or any(name.endswith("_test.go") for name in self._names_in(directory)):
                yield from self._try(directory, go_runner)

    def cargo(self) -> Iterator[Runner]:
        yield from self._outermost("Cargo.toml", cargo_runner)

    def maven(self) -> Iterator[Runner]:
        yield from self._outermost("pom.xml", maven_runner)

    def gradle(self) -> Iterator[Runner]:
        found = [runner for file in GRADLE_FILES for runner in self._outermost(file, gradle_runner)]
        places = {runner.directory: runner for runner in found}
        yield from (places[place] for place in sorted(places) if not _is_below(place, places))

    def ctest(self) -> Iterator[Runner]:
        yield from self._outermost("CMakeLists.txt", ctest_runner)

    def make(self, places: Collection[str]) -> Iterator[Runner]:
        """The make targets of directories that no other runner is in, above or below."""
        made = [runner for file in MAKE_FILES for runner in self._outermost(file, make_runner)]
        found = {runner.directory: runner for runner in made}
        for place in sorted(found):
            is_covered = _is_below(place, places) or any(_is_below(each, [place]) for each in places)
            if place not in places and not is_covered and not _is_below(place, found):
                yield found[place]

    def python(self) -> Iterator[Runner]:
        """One run from the root, or one per project if the root is none and has no tests of its own."""
        projects = sorted({place for file in PYTHON_PROJECT for place in self._with(file) if place})
        projects = [place for place in projects if not _is_below(place, projects)]
        tests = [name for name in self._names if TEST_FILE.search(name)]
        loose = [name for name in tests if not any(name.startswith(f"{place}/") for place in projects)]
        is_project = any(file in self._names for file in PYTHON_PROJECT) and (
            names_pytest(self._read) or not projects
        )
        if is_project or loose or not projects:
            yield from self._try("", python_runner)
            return
        env = next((name for name in ENVIRONMENTS if name in self._names), "")
        for place in projects:
            above = f"{'../' * (place.count('/') + 1)}{env}" if env else ""
            yield from self._try(place, partial(python_runner, above=above))

    def _outermost(self, file: str, find: Find) -> Iterator[Runner]:
        """The runners in directories with this file that are not below another with a runner."""
        covered: list[str] = []
        for directory in self._with(file):
            if not _is_below(directory, covered):
                for runner in self._try(directory, find):
                    covered.append(directory)
                    yield runner

    def _try(self, directory: str, find: Find) -> Iterator[Runner]:
        def read(path: str) -> bytes | None:
            return self._read(f"{directory}/{path}" if directory else path)

        if runner := find(read, self._names_in(directory)):
            yield replace(runner, directory=directory)

    def _names_in(self, directory: str) -> Sequence[str]:
        if not directory:
            return self._names
        return [name[len(directory) + 1 :] for name in self._names if name.startswith(f"{directory}/")]

    def _with(self, file: str) -> Sequence[str]:
        """The directories that have a file, those closest to the root first."""
        return self._below.get(file, [])


def _directories(names: Sequence[str]) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        directory, _, file = name.rpartition("/")
        parts = directory.split("/") if directory else []
        if len(parts) <= MAX_DEPTH and not SKIPPED.intersection(parts):
            found[file].append(directory)
    for places in found.values():
        places.sort(key=lambda place: (place.count("/") + bool(place), place))
    return found


def _is_below(place: str, others: Collection[str]) -> bool:
    return any(place != other and (not other or place.startswith(f"{other}/")) for other in others)
