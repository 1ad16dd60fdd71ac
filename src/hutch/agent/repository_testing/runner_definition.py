"""How tests are run: a command, the reader of its results, and the directory it belongs to."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from hutch.system.lazy_dataclass import dataclass

Reader = Literal["any", "junit", "pytest", "go", "jest", "tap", "cargo", "summary"]
ReadFile = Callable[[str], bytes | None]  # a file of the workspace, None when there is none
REPORT = "/tmp/hutch-tests.report"
CONFIGURED = "tests.command"


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
    directory: str = ""  # in the workspace, in which it runs
    only: tuple[str, ...] = ()  # names of the tests that were selected, if it reports the others as skipped
    reports: str = ""  # a pattern of report files in that directory, which others than Hutch name

    def __str__(self) -> str:
        command = self.shown or " ".join(self.argv)
        return f"cd {shlex.quote(self.directory)} && {command}" if self.directory else command

    @property
    def suite(self) -> str:
        """The name of its tests as a whole."""
        return f"{self.name} in {self.directory}" if self.directory else self.name

    @property
    def words(self) -> tuple[str, ...]:
        """The command to start."""
        return (*self.argv, *self.all_tests)

    @property
    def builds_silently(self) -> bool:
        """True if the runner prints nothing while it compiles, which may take minutes: Go, the first time."""
        return self.reader == "go"

    @property
    def always_counts(self) -> bool:
        """True if every real run of this runner reports counts."""
        return self.reader != "summary"


def with_words(runner: Runner, words: Sequence[str]) -> Runner:
    """The runner with arguments that select some of the tests."""
    if not words:
        return runner
    if runner.name == CONFIGURED:
        script = f'{runner.argv[-1]} "$@"'
        return replace(runner, argv=(*runner.argv[:-1], script, "tests", *words), shown=_shown(runner, words))
    return replace(runner, argv=(*runner.argv, *words), all_tests=(), shown=_shown(runner, words))


def _shown(runner: Runner, words: Sequence[str]) -> str:
    return f"{replace(runner, directory='')} {shlex.join(words)}"
