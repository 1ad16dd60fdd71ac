"""Tools that run the tests of a session and read the results."""

from typing import Annotated, Any

from pydantic import Field

from hutch.agent.repository_testing.test_selection import MAX_CHARS, MAX_SELECTED
from hutch.flows import user_test_runs
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionArguments, SessionTool
from hutch.gateway.rest.test_runs import CaseOut, TestRunOut
from hutch.jail.policy import MAX_TIMEOUT_S
from hutch.sessions.file_and_command_requests import StartTests

MAX_FAILURES = 20  # that are returned with their messages
Name = Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]


class RunTestsArguments(SessionArguments):
    files: list[Name] = Field(default=[], max_length=MAX_SELECTED, examples=[["tests/test_add.py"]])
    tests: list[Name] = Field(default=[], max_length=MAX_SELECTED, description="Names, as results have them.")
    failed: bool = Field(False, description="Only the tests that failed when they last ran.")
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S, description="For all tests together.")
    wait_s: float = Field(60, ge=0, le=MAX_TIMEOUT_S, description="Return after this time, even if it runs.")


class ReadTestsArguments(SessionArguments):
    id: str = Field(
        "last", max_length=80, pattern="^[a-z0-9_]+$", description="The id that run_tests returned."
    )


class TestResultOut(TestRunOut):
    """A test run, with its first failures."""

    failures: list[CaseOut]


async def run_tests(call: Call, args: RunTestsArguments) -> Any:
    wanted = StartTests(tuple(args.files), tuple(args.tests), args.failed, args.timeout_s)
    services = call.server.services
    run = await user_test_runs.start(services, call.caller, args.session_id, wanted, wait_s=args.wait_s)
    return await _result(call, args.session_id, run.id)


async def read_tests(call: Call, args: ReadTestsArguments) -> Any:
    return await _result(call, args.session_id, args.id)


async def _result(call: Call, session_id: str, id: str) -> dict[str, Any]:
    services = call.server.services
    run = await user_test_runs.get(services, call.caller, session_id, id)
    found = await user_test_runs.cases(
        services, call.caller, session_id, run.id, outcomes=("failed",), limit=MAX_FAILURES
    )
    names = [name for name in CaseOut.model_fields if name != "number"]
    failures = [
        {"number": number, **{name: getattr(case, name) for name in names}} for number, case in found.cases
    ]
    return {**TestRunOut.of(run), "failures": failures}


TEST_TOOLS = (
    SessionTool(
        "run_tests",
        "Run the tests",
        "Run the session's tests: all, some files, single ones, or those that failed last.",
        RunTestsArguments,
        TestResultOut,
        run_tests,
    ),
    SessionTool(
        "read_tests",
        "Read test results",
        "A test run of the session, with its first failures; by default the last one.",
        ReadTestsArguments,
        TestResultOut,
        read_tests,
        True,
    ),
)
