"""The limits of an execution of given code, and its results."""

from dataclasses import field
from typing import Any, Literal, Protocol

from hutch.domain.errors import BadRequest
from hutch.domain.given_code_test_case import Language
from hutch.system.lazy_dataclass import dataclass

MIB = 1024 * 1024
MIN_MEMORY_BYTES = 64 * MIB
MAX_TIMEOUT_S = 600.0

Status = Literal["passed", "failed", "error", "timeout", "limit", "skipped"]
"""failed: another result than expected. error: the code raised or ended without a result.
limit: stopped by a limit other than time. skipped: not run, because the time of the execution was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """How much one execution may use."""

    timeout_s: float = 30.0  # of all cases together; compiling has the same again
    case_timeout_s: float = 10.0
    memory_bytes: int = 512 * MIB  # of all processes of a case together
    output_bytes: int = 1 * MIB  # of each stream; more is omitted from the middle

    def __post_init__(self) -> None:
        for name in ("timeout_s", "case_timeout_s"):
            if not 0 < (value := getattr(self, name)) <= MAX_TIMEOUT_S:
                raise BadRequest(f"{name} is {value:g}; give a number above 0 and at most {MAX_TIMEOUT_S:g}.")
        if self.memory_bytes < MIN_MEMORY_BYTES:
            raise BadRequest(
                f"memory_bytes is {self.memory_bytes}; no toolchain starts with less than {MIN_MEMORY_BYTES}."
            )
        if self.output_bytes < 1:
            raise BadRequest(f"output_bytes is {self.output_bytes}; give at least 1.")


DEFAULT_LIMITS = ExecutionLimits()


class LimitFields(Protocol):
    """The limits as an installation sets them."""

    @property
    def timeout_s(self) -> int: ...

    @property
    def case_timeout_s(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def output_bytes(self) -> int: ...


def execution_limits(
    own: LimitFields, *, timeout_s: float | None = None, memory_bytes: int | None = None
) -> ExecutionLimits:
    """The limits of an installation, or lower ones that a caller asks for."""
    lower_s = min(own.timeout_s, own.timeout_s if timeout_s is None else timeout_s)
    return ExecutionLimits(
        timeout_s=lower_s,
        case_timeout_s=min(own.case_timeout_s, lower_s),
        memory_bytes=min(own.memory_bytes, own.memory_bytes if memory_bytes is None else memory_bytes),
        output_bytes=own.output_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """How one case, or one test of a test file, ended. Time and memory are measured outside of the jail,
    except for tests of a test file: their runner reports the time, and no memory is known."""

    name: str
    status: Status
    message: str = ""  # why it has not passed; names expected values: only for readers who may know them
    actual: Any = None  # the JSON value that a call returned
    stdout: str = ""
    stderr: str = ""
    time_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    is_output_cut: bool = False

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The results of all cases, in their order."""

    language: Language
    cases: tuple[CaseResult, ...] = field(default=())
    problem: str = ""  # why no case could be run: the code does not compile, or no test was found
    stdout: str = ""  # of the compiler or the test runner
    stderr: str = ""
    build_s: float = 0.0
    time_s: float = 0.0  # of all cases, with the start of their jails

    @property
    def ok(self) -> bool:
        """True if there are cases and all have passed."""
        return not self.problem and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def passed(self) -> int:
        return sum(case.passed for case in self.cases)

    @property
    def total(self) -> int:
        return len(self.cases)

    @property
    def first_problem(self) -> str:
        """One line about the first case that has not passed; empty if all have."""
        if self.problem:
            return self.problem
        for case in self.cases:
            if not case.passed:
                return f"{case.name}: {case.message.strip() or case.status}"
        return "" if self.cases else "There are no cases."
