"""Finds the test modules that a change can affect.

A file depends on the modules that it imports anywhere, and on every module and file that a
string in it names: tests start programs with `-m tests.attacks.gateway`, commands are loaded by a
name in a table, scripts are run by their file names. A test module depends on the conftest.py
files above it, and on the whole command line if a string in it names the program `hutch`. So the
result is rather too large than too small. A file of an unknown kind affects every test.
"""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

CODE = ("src/hutch", "tests", "scripts", "bench")
COMMAND_LINE = "src/hutch/cli/console_script.py"  # loaded first by the program `hutch`
RULES = "tests/house/"  # these read every file of the project
PAGES = ("docs", "samples", "scripts", "bench", "editors", ".ci")  # a change there affects files that name it
PAGE_NAMES = ("Makefile", "system-packages.txt", ".gitignore", "LICENSE")
DOTTED = re.compile(r"\b(?:hutch|tests|scripts|bench)(?:\.\w+)+(?:\.$)?")
FROM = re.compile(
    r"\bfrom ((?:hutch|tests|scripts|bench)[\w.]*) import (\([^)]*\)|[\w, ]+)"
)  # in a program inside a string


class UnknownChange(Exception):
    """The changed files cannot be determined."""


@dataclass(frozen=True)
class Affected:
    """Test modules, and the reasons for that choice."""

    tests: list[str]
    why: list[str]


def changed_files(root: Path, base: str = "main") -> list[str]:
    """Files that differ from where this branch left `base`: committed, uncommitted, untracked."""
    for name in (base, f"origin/{base}"):
        found = _git(root, "merge-base", name, "HEAD")
        if found.returncode == 0:
            break
    else:
        raise UnknownChange(f"git finds no common commit with '{base}'. Choose another branch: BASE=BRANCH")
    listings = (
        _git(root, "diff", "--name-only", "--no-renames", "-z", found.stdout.strip()),
        _git(root, "ls-files", "--others", "--exclude-standard", "-z"),
    )
    for listing in listings:
        if listing.returncode != 0:
            raise UnknownChange(f"git cannot list changes: {listing.stderr.strip()}")
    return sorted({name for listing in listings for name in listing.stdout.split("\0") if name})


def _git(root: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)


def affected(root: Path, changed: Iterable[str]) -> Affected:
    """The test modules that a change of these files can affect."""
    project = Project(root)
    begin: set[str] = set()
    why = []
    for name in changed:
        found = project.changed_with(name)
        if found is None:
            return Affected(project.tests, [f"{name}: can affect any test"])
        reached = len(project.reached(found) & set(project.tests))
        why.append(f"{name}: {reached} test module{'s' * (reached != 1)}")
        begin |= found
    rules = {test for test in project.tests if why and test.startswith(RULES)}
    if rules:
        why.append(f"{RULES}: {len(rules)}, because they read every file")
    return Affected(sorted(project.reached(begin) & set(project.tests) | rules), why)


class Project:
    """The Python files of a project, and their dependencies."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = (path for place in CODE for path in (root / place).rglob("*.py"))
        self.files = {path.relative_to(root).as_posix(): path for path in paths}
        self.tests = sorted(
            name for name in self.files if name.startswith("tests/") and Path(name).name.startswith("test_")
        )
        self._modules = {_module(name): name for name in self.files}
        self._trees = {name: ast.parse(path.read_bytes(), name) for name, path in self.files.items()}
        self._texts = {
            name: {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            for name, tree in self._trees.items()
        }

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """By file: the files that depend on it directly."""
        found: dict[str, set[str]] = defaultdict(set)
        for name in self.files:
            for needed in self._needs(name):
                found[needed].add(name)
        return found

    def reached(self, begin: Iterable[str]) -> set[str]:
        """These files and all files that depend on them."""
        seen, waiting = set(begin), list(begin)
        while waiting:
            new = self.importers[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    def changed_with(self, name: str) -> set[str] | None:
        """The Python files that count as changed with this one; None means all."""
        path = PurePosixPath(name)
        if name in self.files:
            if path.name.startswith("test_") or self.importers[name] or not name.startswith("src/"):
                return {name}
            return self._beside(name)  # loaded in a way that is not visible here, like migrations
        if path.suffix == ".py":
            return set() if name.startswith("tests/") and path.name.startswith("test_") else None  # deleted
        if path.parts[0] in ("src", "tests") and len(path.parts) > 2:
            return self._beside(name) | self._naming(path) or None
        if path.parts[0] in PAGES or name in PAGE_NAMES or path.suffix == ".md":
            return self._naming(path)
        return None

    def _beside(self, name: str) -> set[str]:
        """All files of the same package."""
        depth = 3 if name.startswith("src/") else 2
        room = "/".join(name.split("/")[:depth]) + "/"
        return {each for each in self.files if each.startswith(room)}

    def _naming(self, path: PurePosixPath) -> set[str]:
        """Files with a string that contains the name of that file, or is a directory above it."""
        above = {str(each) for each in path.parents} | {each.name for each in path.parents}
        above -= {".", ""}
        return {
            name
            for name, texts in self._texts.items()
            if any(path.name in text or text.strip("/") in above for text in texts)
        }

    def _needs(self, name: str) -> Iterator[str]:
        for module in self._named(name):
            while module:  # importing a.b.c runs a and a.b first
                if module in self._modules:
                    yield self._modules[module]
                module = module.rpartition(".")[0]
        if not name.startswith("src/"):
            for text in self._texts[name]:
                if PurePosixPath(text).name == "hutch":
                    yield COMMAND_LINE
                elif f"scripts/{PurePosixPath(text).name}" in self.files:
                    yield f"scripts/{PurePosixPath(text).name}"
        if name.startswith("tests/"):
            for above in PurePosixPath(name).parents:
                if (conftest := f"{above}/conftest.py") in self.files and conftest != name:
                    yield conftest

    def _named(self, name: str) -> Iterator[str]:
        """Dotted names that a file imports or has in a string."""
        package = _module(name) if name.endswith("__init__.py") else _module(name).rpartition(".")[0]
        for node in ast.walk(self._trees[name]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")
                above = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
                module = ".".join(part for part in (above, node.module) if part)
                yield from (f"{module}.{alias.name}" for alias in node.names)
        for text in self._texts[name]:
            for dotted in DOTTED.findall(text):
                if dotted.endswith("."):  # the start of a concatenated name
                    yield from (module for module in self._modules if module.startswith(dotted))
                else:
                    yield dotted
            for module, names in FROM.findall(text):
                yield from (f"{module}.{each}" for each in re.findall(r"\w+", names))


def _module(name: str) -> str:
    parts = PurePosixPath(name.removeprefix("src/")).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
