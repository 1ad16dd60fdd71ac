"""Test runs of a session: start, watch, cancel, list, compare them."""

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.agent.repository_testing.test_selection import MAX_CHARS, MAX_SELECTED
from hutch.domain.recorded_test_runs import CaseKey, Comparison, PastOutcome, RecordedCase, RecordedRun
from hutch.flows import user_test_runs as flow
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import (
    Cursor,
    In,
    Limit,
    NumberCursor,
    Out,
    Page,
    answer,
    fields_from,
    page,
    paged,
)
from hutch.gateway.rest.base_route import router, server_of
from hutch.jail.policy import MAX_TIMEOUT_S
from hutch.sessions.file_and_command_requests import FoundSuite, StartTests

routes = router("tests")

MAX_LISTED = 200  # tests of each kind in a comparison
Name = Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]
TestRun = Annotated[
    str, Path(max_length=80, description="The id of a test run, or `last`.", pattern="^[a-z0-9_]+$")
]
OutcomeName = Literal["passed", "failed", "skipped"]


class TestsIn(In):
    """Which tests to run; an empty object runs all."""

    files: list[Name] = Field(default=[], max_length=MAX_SELECTED, examples=[["tests/test_add.py"]])
    tests: list[Name] = Field(
        default=[], max_length=MAX_SELECTED, description="Names of tests, as results have them."
    )
    failed: bool = Field(False, description="Only the tests that failed when they last ran.")
    timeout_s: float | None = Field(None, gt=0, le=MAX_TIMEOUT_S, description="For all tests together.")
    watch: bool = Field(
        False, description="Repeat the run after each change, until stop_watching_tests or the jail closes."
    )
    wait_s: float = Field(
        0, ge=0, le=MAX_TIMEOUT_S, description="Respond when the run has ended, at most so much later."
    )


@fields_from(RecordedRun)
class TestRunOut(Out):
    """A test run. Its tests have a list of their own."""

    id: str = Field(examples=["tst_01jd2m4a5b6c7d8e9f0g1h2j3k"])
    run_id: str = Field(description="The agent's run; empty for a user's test run.")
    by: str = Field(description="The requester: a user's id, `agent` or `hutch`.")
    cause: str = Field(description="tool, delivery, request, watch or auto.")
    partial: bool = Field(description="Whether only some tests were asked for.")
    stored: int = Field(description="Tests in the list of its tests; older lists are deleted.")
    ended_ms: int = Field(description="0 before it has ended.")


@fields_from(RecordedCase, "suite name outcome duration_s message file line")
class CaseOut(Out):
    """A test of a run."""

    number: int
    line: int = Field(description="0 if it is not known.")


class KeyOut(Out):
    """A test by its suite and name."""

    suite: str
    name: str


class ComparisonOut(Out):
    """The changes between two runs, by the tests that both have. Lists have up to 200 tests each."""

    old: str
    new: str
    fixed: list[KeyOut] = Field(description="Failed, and pass now.")
    broke: list[KeyOut] = Field(description="Did not fail, and fail now.")
    added: list[KeyOut] = Field(description="Only in the new run.")
    removed: list[KeyOut] = Field(description="Only in the old run.")
    fixed_count: int
    broke_count: int
    added_count: int
    removed_count: int
    other_count: int = Field(description="Changed otherwise: skipped now, or no longer skipped.")
    unchanged: int


@fields_from(FoundSuite)
class TestSuiteOut(Out):
    """Tests that were found in the files of a session."""

    name: str = Field(description="Of the test runner.", examples=["pytest"])
    command: str = Field(description="Runs all of them.", examples=["python -m pytest"])
    directory: str = Field(description="In which it runs; empty for the workspace.")


class TestSuitesOut(Out):
    """All tests that were found, by test runner and directory."""

    items: list[TestSuiteOut]
    next: None = None


@fields_from(PastOutcome)
class PastOutcomeOut(Out):
    """How a test ended in one run."""


class HistoryOut(Out):
    """The last outcomes of one test, newest first."""

    items: list[PastOutcomeOut]
    next: None = None


@routes.post(
    "/sessions/{session_id}/tests", operation_id="run_tests", status_code=202, response_model=TestRunOut
)
async def start(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: TestsIn | None = None
) -> Response:
    """Run tests in a session: all, those of some files, single ones, or those that failed last.

    The result is in the session's event `tests.run`, and here. One test run at a time: another is a conflict.
    """
    body = body or TestsIn()
    wanted = StartTests(tuple(body.files), tuple(body.tests), body.failed, body.timeout_s, body.watch)
    services = server_of(request).services
    run = await flow.start(services, caller, session_id, wanted, wait_s=body.wait_s)
    return answer(TestRunOut.of(run), 202 if run.state == "running" else 200)


@routes.get("/sessions/{session_id}/tests", operation_id="list_test_runs", response_model=Page[TestRunOut])
async def listed(
    request: Request, caller: Reader, session_id: str, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The test runs of a session, newest first: those of users, of the agent, and before deliveries."""
    found = await flow.page(server_of(request).services, caller, session_id, before=cursor, limit=limit + 1)
    return paged(request, found, limit, TestRunOut)


@routes.get(
    "/sessions/{session_id}/tests/suites", operation_id="list_test_suites", response_model=TestSuitesOut
)
async def suites(request: Request, caller: Reader, session_id: str) -> Response:
    """The tests that a session's files have, and the commands that run them. None of them is run."""
    found = await flow.suites(server_of(request).services, caller, session_id)
    return answer({"items": [TestSuiteOut.of(each) for each in found], "next": None})


@routes.get(
    "/sessions/{session_id}/tests/history", operation_id="get_test_history", response_model=HistoryOut
)
async def history(
    request: Request,
    caller: Reader,
    session_id: str,
    name: Annotated[str, Query(min_length=1, max_length=MAX_CHARS, description="The name of the test.")],
    suite: Annotated[str, Query(max_length=MAX_CHARS, description="Only of this suite.")] = "",
    limit: Limit = 20,
) -> Response:
    """The last outcomes of one test."""
    services = server_of(request).services
    found = await flow.history(services, caller, session_id, name, suite=suite, limit=limit)
    return answer({"items": [PastOutcomeOut.of(each) for each in found], "next": None})


@routes.delete("/sessions/{session_id}/tests/watch", operation_id="stop_watching_tests", status_code=204)
async def stop_watching(request: Request, caller: Writer, session_id: str) -> Response:
    """Repeat no test run after changes any more."""
    await flow.stop_watching(server_of(request).services, caller, session_id)
    return Response(status_code=204)


@routes.get("/sessions/{session_id}/tests/{test_run}", operation_id="get_test_run", response_model=TestRunOut)
async def show(request: Request, caller: Reader, session_id: str, test_run: TestRun) -> Response:
    """One test run."""
    return answer(TestRunOut.of(await flow.get(server_of(request).services, caller, session_id, test_run)))


@routes.get(
    "/sessions/{session_id}/tests/{test_run}/cases",
    operation_id="list_test_cases",
    response_model=Page[CaseOut],
)
async def cases(
    request: Request,
    caller: Reader,
    session_id: str,
    test_run: TestRun,
    outcome: Annotated[list[OutcomeName] | None, Query(description="Only these; may be repeated.")] = None,
    text: Annotated[str, Query(max_length=MAX_CHARS, description="Only with this in the name or file.")] = "",
    cursor: NumberCursor = "",
    limit: Limit = 100,
) -> Response:
    """The tests of a run, in the order in which they were reported."""
    found = await flow.cases(
        server_of(request).services,
        caller,
        session_id,
        test_run,
        outcomes=outcome or (),
        text=text,
        after=int(cursor or 0),
        limit=limit,
    )
    items = [{"number": number, **_case(case)} for number, case in found.cases]
    return page(request, items, None if found.next is None else str(found.next))


@routes.get(
    "/sessions/{session_id}/tests/{test_run}/comparison",
    operation_id="compare_test_runs",
    response_model=ComparisonOut,
)
async def comparison(
    request: Request,
    caller: Reader,
    session_id: str,
    test_run: TestRun,
    with_: Annotated[
        str,
        Query(alias="with", max_length=80, description="The id of another run; by default the one before."),
    ] = flow.PREVIOUS,
) -> Response:
    """The changes from another run of the session to this one."""
    services = server_of(request).services
    return answer(_compared(await flow.compare(services, caller, session_id, test_run, with_)))


@routes.post(
    "/sessions/{session_id}/tests/{test_run}/cancel", operation_id="cancel_test_run", status_code=204
)
async def cancel(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, test_run: TestRun
) -> Response:
    """Stop a test run that is going on. The results until then are recorded."""
    await flow.cancel(server_of(request).services, caller, session_id, test_run)
    return Response(status_code=204)


def _case(case: RecordedCase) -> dict[str, Any]:
    return {name: getattr(case, name) for name in CaseOut.model_fields if name != "number"}


def _compared(found: Comparison) -> dict[str, Any]:
    lists = {"fixed": found.fixed, "broke": found.broke, "added": found.added, "removed": found.removed}
    return {
        "old": found.old,
        "new": found.new,
        **{name: _keys(keys) for name, keys in lists.items()},
        **{f"{name}_count": len(keys) for name, keys in lists.items()},
        "other_count": len(found.other),
        "unchanged": found.unchanged,
    }


def _keys(keys: list[CaseKey]) -> list[dict[str, str]]:
    return [{"suite": suite, "name": name} for suite, name in keys[:MAX_LISTED]]
