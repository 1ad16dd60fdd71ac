"""Cases for given code as JSON, in requests and in the files of questions."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hutch.domain.given_code_test_case import MAX_STEPS, CodeCase, Expected, Step

MAX_NAME_CHARS = 200
MAX_TEXT_CHARS = 1_000_000
Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
NAMES = ("call", "create", "stdin")


class CaseFields(BaseModel):
    """One case: a function to call, an object to make and use, or the standard input of the program."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
    call: Name | None = Field(None, description="The function to call, in snake case.")
    create: Name | None = Field(None, description="The class of which an object is made.")
    args: list[Any] = Field(default_factory=list, max_length=100, description="JSON values.")
    steps: list[list[Any]] = Field(
        default_factory=list,
        max_length=MAX_STEPS,
        description="With `create`: `[method, [arguments], expected]`. Without `expected`, any result is "
        "right.",
    )
    expected: Any = Field(None, description="The result of `call`, a JSON value.")
    fails: bool = Field(False, description="Whether `call` must raise, throw, or return an error.")
    stdin: Text | None = Field(None, description="Runs the program with this input.")
    stdout: Text | None = Field(
        None, description="What the program must print, without spaces at the end of lines."
    )
    timeout_s: float | None = Field(None, gt=0, le=600)

    @model_validator(mode="after")
    def _is_one_kind(self) -> "CaseFields":
        if not self.name.isprintable():
            raise ValueError("the name has characters that cannot be shown")
        given = [name for name in NAMES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of call, create and stdin")
        if self.steps and not self.create:
            raise ValueError("steps need create")
        if self.create and not self.steps:
            raise ValueError("create needs steps")
        if self.stdout is not None and self.stdin is None:
            raise ValueError("stdout needs stdin")
        if self.args and self.stdin is not None:
            raise ValueError("a program has no args; use stdin")
        if not self.call and ("expected" in self.model_fields_set or self.fails):
            raise ValueError("expected and fails need call")
        if self.fails and "expected" in self.model_fields_set:
            raise ValueError("give expected or fails, not both")
        for number, step in enumerate(self.steps, start=1):
            _check_step(step, number)
        return self

    def to_case(self) -> CodeCase:
        expected = None
        if self.fails or "expected" in self.model_fields_set:
            expected = Expected(value=self.expected, fails=self.fails)
        return CodeCase(
            name=self.name,
            call=self.call or "",
            create=self.create or "",
            args=tuple(self.args),
            steps=tuple(_step(each) for each in self.steps),
            expected=expected,
            stdin=self.stdin,
            stdout=self.stdout,
            timeout_s=self.timeout_s,
        )


def _check_step(step: list[Any], number: int) -> None:
    is_call = len(step) in (2, 3) and isinstance(step[0], str) and isinstance(step[1], list)
    if not is_call or not step[0].isidentifier():
        raise ValueError(f"step {number} is not [method, [arguments], expected]")


def _step(step: list[Any]) -> Step:
    return Step(
        call=step[0], args=tuple(step[1]), expected=Expected(value=step[2]) if len(step) == 3 else None
    )
