"""Retries: which errors, how often, and the message at the end."""

import pytest

from hutch.domain.errors import BadRequest, Denied, LimitReached, NotFound, Unavailable
from hutch.llm.interface import Again, Finish, FromUser, Request
from hutch.llm.reply_builder import ReplyBuilder
from hutch.llm.retry import RetryingModel, RetryPolicy
from tests.llm.scripted_models import QUICK, pieces, scripted

pytestmark = pytest.mark.anyio


async def test_transient_errors_are_retried() -> None:
    model = RetryingModel(
        scripted(
            "- fault: {status: 429, retry_after_s: 0.01}\n- fault: {kind: cut}\n  text: half a\n- text: whole"
        ),
        QUICK,
    )
    got = await pieces(model)
    assert [piece.attempt for piece in got if isinstance(piece, Again)] == [2, 3]
    assert next(piece.wait_s for piece in got if isinstance(piece, Again)) == 0.01
    assert [piece.message for piece in got if isinstance(piece, Again)] == [
        f"{model.name} accepts no more requests for now (429); retrying in 1 s (attempt 2 of 3).",
        f"{model.name} did not answer: the stream ended in the middle of a reply; retrying in 1 s "
        f"(attempt 3 of 3).",
    ]
    gathering = ReplyBuilder()
    for piece in got:
        gathering.add(piece)
    assert (gathering.reply().text, gathering.reply().attempts) == ("whole", 3)


async def test_the_last_error_names_a_remedy() -> None:
    with pytest.raises(Unavailable, match=r"the cassette says 529.*Tried 3 times.*another model"):
        await pieces(RetryingModel(scripted("- fault: {status: 529}\n  times: 9"), QUICK))
    with pytest.raises(Unavailable, match=r"asks to wait 900 s.*Tried once"):
        await pieces(RetryingModel(scripted("- fault: {status: 429, retry_after_s: 900}"), QUICK))


async def test_a_refused_request_is_not_retried() -> None:
    with pytest.raises(BadRequest, match="status 400"):
        await pieces(RetryingModel(scripted("- fault: {status: 400}\n- text: never"), QUICK))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Denied), (402, LimitReached), (403, Denied), (404, NotFound), (422, BadRequest)],
)
async def test_a_scripted_refusal_is_the_error_that_a_provider_would_cause(
    status: int, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=f"refuses with status {status}"):
        await pieces(RetryingModel(scripted(f"- fault: {{status: {status}}}"), QUICK))


async def test_silence_counts_as_broken() -> None:
    got = await pieces(RetryingModel(scripted("- fault: {kind: stall}\n  text: half\n- text: whole"), QUICK))
    assert [piece.reason for piece in got if isinstance(piece, Again)] == ["no data for 0.05 s"]


async def test_delays_grow_and_are_random() -> None:
    model = scripted("- fault: {status: 500}\n  times: 9")
    waits = []
    for _ in range(2):
        patient = RetryingModel(model, RetryPolicy(attempts=5, first_wait_s=0.001, max_wait_s=0.004))
        with pytest.raises(Unavailable):
            await collected(patient, waits)
        model = scripted("- fault: {status: 500}\n  times: 9")
    assert all(
        0.5 * bar <= wait <= bar for wait, bar in zip(waits, [0.001, 0.002, 0.004, 0.004] * 2, strict=True)
    )
    assert waits[:4] != waits[4:]


async def collected(model: RetryingModel, waits: list[float]) -> None:
    async for piece in model.stream(Request("", (FromUser("go"),))):
        if isinstance(piece, Again):
            waits.append(piece.wait_s)


async def test_an_empty_reply_is_accepted_the_second_time() -> None:
    got = await pieces(RetryingModel(scripted("- text: ''"), QUICK))
    assert [piece.reason for piece in got if isinstance(piece, Again)] == ["the reply was empty"]
    assert got[-1] == Finish("stop", {"scripted": {"reply": 0}})


async def test_a_refusal_may_have_no_text() -> None:
    got = await pieces(RetryingModel(scripted("- finish: refused"), QUICK))
    assert [piece for piece in got if isinstance(piece, Again)] == []
