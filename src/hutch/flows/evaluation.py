"""A task for the agent, and the grade for what it did: tests that it could not see while it worked.

How the tests are run is settled before the agent begins, from the files it is given
and from the hidden ones: nothing that it leaves behind can choose another runner.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hutch.agent.limits import RunLimits
from hutch.agent.testing.detect import Runner, detect, with_words
from hutch.agent.testing.report import Report
from hutch.agent.testing.run import run_tests
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.edit.apply import read_operations
from hutch.jail.seam import Jail
from hutch.llm.cassette import Cassette
from hutch.workspace.workspace import Workspace

LOOKED_AT = 5000  # paths, for names of tests
NAMES_AT_ONCE = 500  # of tests, in one command
SHOWN_LINES = 30  # of what failing tests say


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or ".git" in parts or "\0" in path:
        raise ValueError(f"'{path}' is not a path inside the workspace")
    return str(PurePosixPath(path))


InsidePath = Annotated[str, AfterValidator(_inside)]


class Part(BaseModel):
    """What all parts of a task share: a word that is not known is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskLimits(Part):
    """The most that one task may take."""

    turns: int | None = Field(None, ge=1)
    tokens: int | None = Field(None, ge=1)
    cost_usd: float | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)

    def for_run(self) -> RunLimits:
        return RunLimits(self.turns, self.tokens, self.cost_usd, self.timeout_s)


class Task(Part):
    """Where to begin, what to do, and how to see whether it was done."""

    name: str = Field(min_length=1, max_length=200)
    prompt: str = Field(min_length=1)
    files: dict[InsidePath, str] = Field(default_factory=dict)
    repo: str | None = None
    revision: str | None = None
    hidden_tests: dict[InsidePath, str] = Field(default_factory=dict)
    test_patch: str = ""
    test_command: str | None = None  # found by looking when not set
    test_timeout_s: float | None = Field(None, gt=0)
    must_pass: tuple[str, ...] = ()  # tests by name, as the runner takes them; empty: all there are
    limits: TaskLimits = TaskLimits()
    persona: str | None = None
    model: str | None = None
    cassette: Cassette | str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "Task":
        if not self.name.isprintable():
            raise ValueError("the name has characters that cannot be shown")
        if bool(self.files) == bool(self.repo):
            raise ValueError("give either files or repo to begin with")
        if self.revision and not self.repo:
            raise ValueError("a revision needs a repo")
        if not (self.hidden_tests or self.test_patch or self.test_command or self.must_pass):
            raise ValueError("nothing tells whether it is done: give hidden_tests or a test_command")
        if self.model and self.cassette:
            raise ValueError("give either a model or a cassette")
        return self


@dataclass(frozen=True, slots=True)
class Grade:
    """What the tests said in the end."""

    passed: bool
    reason: str
    tests: tuple[dict[str, Any], ...] = ()  # of each run of them, for programs


async def choose_runner(workspace: Workspace, task: Task, command: str | None = None) -> Runner:
    """How the task's tests will be run, by what is there before the agent is. Nothing is written yet."""
    page = await workspace.entries(recursive=True, ignores=True, limit=LOOKED_AT)
    names = dict.fromkeys([*(entry.path for entry in page.entries), *task.hidden_tests, *_patched(task)])

    def read(path: str) -> bytes | None:
        if path in task.hidden_tests:
            return task.hidden_tests[path].encode()
        try:
            return workspace.files.read_bytes(path)[0]
        except (NotFound, Denied, BadRequest):
            return None

    return detect(read, list(names), command=task.test_command or command)


async def place_tests(workspace: Workspace, task: Task, first: int) -> None:
    """Bring the hidden tests, over whatever the agent left in their place."""
    for path in _patched(task):
        with suppress(NotFound):  # a test that is new, and that the agent has not made
            await workspace.restore(first, path)
    if task.test_patch:
        await workspace.apply_patch(task.test_patch)
    for path, text in task.hidden_tests.items():
        with suppress(NotFound):
            await workspace.delete(path)  # a link would lead elsewhere
        await workspace.write(path, text.encode())


async def grade(
    workspace: Workspace,
    jail: Jail,
    task: Task,
    runner: Runner,
    first: int,
    *,
    clean: Callable[[str], str] = str,
) -> Grade:
    """Run the hidden tests. The jail must be a new one, in which nothing of the agent's runs.

    `clean` takes secrets out of what they print, before anything is cut.
    """
    try:
        await place_tests(workspace, task, first)
    except (BadRequest, Denied) as error:
        return Grade(False, clean(f"The hidden tests cannot be put in place: {error}"))
    told: list[dict[str, Any]] = []
    said = ""
    for names in _batches(task.must_pass):
        words = with_words(runner, names)
        report = await run_tests(jail, words, timeout_s=task.test_timeout_s, clean=clean)
        told.append(report.data())
        said = report.text()
        if not report.ok:
            return Grade(False, "\n".join(said.splitlines()[:SHOWN_LINES]), tuple(told))
        if missing := _missing(report, names):
            return Grade(False, f"{missing} of the tests that must pass did not run.", tuple(told))
    return Grade(True, said.splitlines()[0], tuple(told))


def _patched(task: Task) -> list[str]:
    return [operation.path for operation in read_operations(task.test_patch)] if task.test_patch else []


def _batches(names: Sequence[str]) -> list[Sequence[str]]:
    distinct = list(dict.fromkeys(names))
    return [distinct[at : at + NAMES_AT_ONCE] for at in range(0, len(distinct), NAMES_AT_ONCE)] or [()]


def _missing(report: Report, names: Sequence[str]) -> int:
    """Who was named and skipped has not passed."""
    return max(0, len(names) - report.counts.passed) if report.counts else 0
