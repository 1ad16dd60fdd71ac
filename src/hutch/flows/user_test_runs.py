"""The test runs of a session for its users: start, cancel, list and compare them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from hutch.domain.errors import BadRequest
from hutch.domain.recorded_test_runs import (
    Comparison,
    PastOutcome,
    RecordedCase,
    RecordedRun,
    compare_outcomes,
)
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.sessions import allowed
from hutch.sessions.file_and_command_requests import (
    CancelTests,
    FoundSuite,
    ListTestSuites,
    StartTests,
    StopWatchingTests,
    WaitForTests,
)
from hutch.store.test_runs import StoredTests
from hutch.system.lazy_dataclass import dataclass

PREVIOUS, LAST = "previous", "last"


@dataclass(frozen=True, slots=True)
class CasePage:
    """Some tests of a run; `next` is the number of the next one, None at the end."""

    cases: list[tuple[int, RecordedCase]]
    next: int | None


async def suites(services: Services, who: Caller, session_id: str) -> Sequence[FoundSuite]:
    """The tests that the files of a session have; none of them is run."""
    session = await allowed(services, who, session_id)
    return await services.host.call(session.id, ListTestSuites(), by=who.user.id)


async def start(
    services: Services, who: Caller, session_id: str, request: StartTests, *, wait_s: float = 0.0
) -> RecordedRun:
    """Start a test run, and wait for its end up to `wait_s`."""
    session = await allowed(services, who, session_id, "input")
    id = await services.host.call(session.id, request, by=who.user.id)
    if wait_s:
        await services.host.call(session.id, WaitForTests(id, wait_s), by=who.user.id)
    return await StoredTests(services.rows).get(session.id, id)


async def cancel(services: Services, who: Caller, session_id: str, id: str) -> None:
    """Stop a test run that is going on; its results until then are recorded."""
    session = await allowed(services, who, session_id, "input")
    run = await StoredTests(services.rows).get(session.id, id)
    await services.host.call(session.id, CancelTests(run.id), by=who.user.id)


async def stop_watching(services: Services, who: Caller, session_id: str) -> bool:
    """Repeat no test run after changes any more; returns whether one was repeated."""
    session = await allowed(services, who, session_id, "input")
    return await services.host.call(session.id, StopWatchingTests(), by=who.user.id)


async def page(
    services: Services, who: Caller, session_id: str, *, before: str = "", limit: int = 50
) -> list[RecordedRun]:
    session = await allowed(services, who, session_id)
    return await StoredTests(services.rows).page(session.id, before=before, limit=limit)


async def get(services: Services, who: Caller, session_id: str, id: str) -> RecordedRun:
    """One test run by its id, or the `last`."""
    session = await allowed(services, who, session_id)
    return await StoredTests(services.rows).get(session.id, id)


async def cases(
    services: Services,
    who: Caller,
    session_id: str,
    id: str,
    *,
    outcomes: Collection[str] = (),
    text: str = "",
    after: int = 0,
    limit: int = 100,
) -> CasePage:
    """The tests of a run."""
    run = await get(services, who, session_id, id)
    found = await StoredTests(services.rows).cases(
        run, outcomes=outcomes, text=text, after=after, limit=limit + 1
    )
    return CasePage(found[:limit], found[limit][0] if len(found) > limit else None)


async def compare(
    services: Services, who: Caller, session_id: str, id: str, other: str = PREVIOUS
) -> Comparison:
    """The changes from another run to this one; by default, of each test since it last ran before, as in the
    run's event."""
    stored, run = StoredTests(services.rows), await get(services, who, session_id, id)
    if other == PREVIOUS:
        old = await stored.last_outcomes(run.session_id, before=run.id)
        if old is None:
            raise BadRequest(f"There is no test run before {run.id} to compare it with.")
    else:
        old = await stored.outcomes(await stored.get(run.session_id, other))
    new = await stored.outcomes(run)
    compared = compare_outcomes(old.id, old.outcomes, new.id, new.outcomes)
    return replace(compared, removed=[]) if run.partial else compared  # tests that did not run still exist


async def history(
    services: Services, who: Caller, session_id: str, name: str, *, suite: str = "", limit: int = 20
) -> list[PastOutcome]:
    """The last outcomes of one test, newest first."""
    session = await allowed(services, who, session_id)
    return await StoredTests(services.rows).history(session.id, suite, name, limit=limit)
