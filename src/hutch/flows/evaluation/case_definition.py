"""An evaluation case for the agent: its start files, its prompt, and hidden tests."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hutch.agent.run_budget import LimitFields
from hutch.llm.scripted_reply_file import Cassette


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or ".git" in parts or "\0" in path:
        raise ValueError(f"'{path}' is not a path inside the workspace")
    return str(PurePosixPath(path))


InsidePath = Annotated[str, AfterValidator(_inside)]


class Part(BaseModel):
    """The base of all parts of a case: an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedStart(Part):
    """A recorded session and the event from which an agent works on."""

    session: str = Field(min_length=1, max_length=100)
    event: int = Field(1, ge=1)


class EvalCase(Part):
    """The start files, the task, and the tests that decide whether it was done."""

    name: str = Field(min_length=1, max_length=200)
    prompt: str = ""  # empty only with `rerun`: that of the recorded run
    files: dict[InsidePath, str] = Field(default_factory=dict)
    repo: str | None = None
    revision: str | None = None
    rerun: RecordedStart | None = None
    hidden_tests: dict[InsidePath, str] = Field(default_factory=dict)
    test_patch: str = ""
    test_command: str | None = None  # detected when not set
    test_timeout_s: float | None = Field(None, gt=0)
    must_pass: tuple[str, ...] = ()  # names of tests, in the runner's syntax; empty: all tests
    limits: LimitFields = LimitFields()
    persona: str | None = None
    model: str | None = None
    cassette: Cassette | str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "EvalCase":
        if not self.name.isprintable():
            raise ValueError("the name has characters that cannot be shown")
        if [bool(self.files), bool(self.repo), self.rerun is not None].count(True) != 1:
            raise ValueError("give either files, repo or rerun to start with")
        if not self.prompt and self.rerun is None:
            raise ValueError("there is no prompt")
        if self.revision and not self.repo:
            raise ValueError("a revision needs a repo")
        if not (self.hidden_tests or self.test_patch or self.test_command or self.must_pass):
            raise ValueError("no test decides whether it is done: give hidden_tests or a test_command")
        if self.model and self.cassette:
            raise ValueError("give either a model or a cassette")
        return self
