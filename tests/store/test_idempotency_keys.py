"""The response to a request with a key is stored in the same transaction as its effect."""

import pytest
from sqlalchemy import func, select, update

from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.session import Session, SessionInput
from hutch.store.event_log import SqlLog
from hutch.store.idempotency_keys import (
    IN_PROGRESS,
    RETENTION_MS,
    Answer,
    AnsweredRequests,
    EarlierRequest,
    RequestKey,
    StoredAnswer,
)
from hutch.store.schema import answered_requests
from hutch.store.session_inputs import Inputs
from hutch.store.sessions import add_session
from hutch.system.clock_without_jumps import wall_ms

pytestmark = pytest.mark.anyio
REQUEST = RequestKey("usr_1", "key", "hash")
ANSWER = Answer(201, {"location": "/there"}, b"{}")


class Broken(Exception):
    """A failure that is none of the database's."""


@pytest.fixture
async def session(log: SqlLog) -> SessionId:
    made = Session(id=new_session_id(), owner="ada", created_ms=1, updated_ms=1)
    await log.change(lambda connection: add_session(connection, made))
    return made.id


async def begin(log: SqlLog, request: RequestKey, *, atomic: bool = False) -> EarlierRequest | None:
    return (await AnsweredRequests(log).begin(request, atomic=atomic, sweep=False))[0]


async def test_the_first_request_begins_and_the_next_gets_its_answer(log: SqlLog) -> None:
    assert await begin(log, REQUEST) is None
    await AnsweredRequests(log).store(REQUEST, ANSWER)
    earlier = await begin(log, REQUEST)
    assert earlier and (earlier.answer, earlier.is_same) == (ANSWER, True)
    other = await begin(log, RequestKey("usr_1", "key", "another"))
    assert other and not other.is_same
    assert await begin(log, RequestKey("usr_2", "key", "hash")) is None


async def test_a_request_that_was_cut_short_begins_anew_only_when_it_did_nothing(log: SqlLog) -> None:
    await begin(log, REQUEST)
    cut = await begin(log, REQUEST)
    assert cut and cut.answer.status == IN_PROGRESS
    assert await AnsweredRequests(log).begin(REQUEST, atomic=True, sweep=False) == (None, cut.at_ms)


async def test_a_refused_request_may_be_sent_again_and_a_kept_answer_stays(log: SqlLog) -> None:
    await begin(log, REQUEST)
    await AnsweredRequests(log).release(REQUEST)
    assert await begin(log, REQUEST) is None
    await AnsweredRequests(log).store(REQUEST, ANSWER)
    await AnsweredRequests(log).release(REQUEST)
    earlier = await begin(log, REQUEST)
    assert earlier and earlier.answer == ANSWER


@pytest.mark.parametrize("sweep", [False, True])
async def test_answers_of_yesterday_are_forgotten(log: SqlLog, sweep: bool) -> None:
    other = RequestKey("usr_1", "other", "hash")
    for request in (REQUEST, other):
        await begin(log, request)
        await AnsweredRequests(log).store(request, ANSWER)
    yesterday = update(answered_requests).values(at_ms=wall_ms() - RETENTION_MS - 1000)
    await log.change(lambda connection: connection.execute(yesterday))
    assert await AnsweredRequests(log).begin(REQUEST, atomic=False, sweep=sweep) == (None, 0)
    left = select(func.count()).select_from(answered_requests)
    assert await log.fetch(lambda connection: connection.scalar(left)) == (1 if sweep else 2)


async def test_an_answer_is_written_with_what_was_asked_for(log: SqlLog, session: SessionId) -> None:
    await begin(log, REQUEST)

    def render(given: SessionInput) -> Answer:
        return Answer(202, {}, str(given.seq).encode())

    given = await Inputs(log).add(session, "ada", "{}", max_unprocessed=9, also=StoredAnswer(REQUEST, render))
    earlier = await begin(log, REQUEST)
    assert given.seq == 1 and earlier and earlier.answer == Answer(202, {}, b"1")


async def test_when_the_answer_fails_nothing_was_done(log: SqlLog, session: SessionId) -> None:
    await begin(log, REQUEST)

    def render(given: SessionInput) -> Answer:
        raise Broken

    with pytest.raises(Broken):
        await Inputs(log).add(session, "ada", "{}", max_unprocessed=9, also=StoredAnswer(REQUEST, render))
    assert await Inputs(log).page(session) == []
    earlier = await begin(log, REQUEST)
    assert earlier and earlier.answer.status == IN_PROGRESS
