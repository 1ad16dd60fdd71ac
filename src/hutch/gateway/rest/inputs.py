"""Inputs: what is asked of a session, in order."""

from typing import Annotated, Any, Literal

import orjson
from fastapi import Body, Query, Request, Response
from pydantic import Field

from hutch.domain.inputs import AnyInput
from hutch.domain.session import SessionInput
from hutch.flows import sessions as flow
from hutch.gateway.auth.caller import Reader, Writer
from hutch.gateway.idempotency import ByKeyWithRow
from hutch.gateway.responses import MAX_ITEMS, MAX_SIZE, Out, answer, page
from hutch.gateway.rest.route import router, server_of

routes = router("inputs")

EXAMPLES = {
    "prompt": {"value": {"type": "prompt", "text": "Make the failing test pass."}},
    "approve": {"value": {"type": "approve", "call_id": "call_1", "scope": "once"}},
    "end": {"value": {"type": "end", "reason": "It is merged."}},
}


class WithheldInput(Out):
    """An input that answers a question which is not for this caller."""

    type: str
    withheld: Literal[True]


class InputOut(Out):
    """An input at its place."""

    seq: int = Field(ge=1)
    at_ms: int
    by: str = Field(description="The user who gave it.")
    taken: bool = Field(description="It was taken up; what came of it is in the log.")
    run_id: str | None = Field(description="The run that it has come to, once that is known.")
    input: AnyInput | WithheldInput


class InputPage(Out):
    """Inputs, the oldest first; ask again with `after` = `next` until that is null."""

    items: list[InputOut]
    next: int | None


def told(given: SessionInput, run_id: str | None = None) -> dict[str, Any]:
    return {
        "seq": given.seq,
        "at_ms": given.at_ms,
        "by": given.by,
        "taken": given.taken or run_id is not None,
        "run_id": run_id,
        "input": orjson.Fragment(given.body),
    }


def kept(given: SessionInput, run_id: str | None = None) -> Response:
    """The answer to who gave an input."""
    return answer(told(given, run_id), 202)


@routes.post(
    "/sessions/{session_id}/inputs", status_code=202, operation_id="give_input", response_model=InputOut
)
async def give(
    request: Request,
    who: Writer,
    once: ByKeyWithRow,
    session_id: str,
    asked: Annotated[AnyInput, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """Give an input to a session. It is kept when this answers; what comes of it is in the log."""
    services = server_of(request).services
    given = await flow.give(services, who, session_id, asked, also=once.keep(kept))
    run_id = (await flow.runs_of(services, session_id, [given])).get(given.seq)
    once.kept = once.kept and run_id is None  # more is known by now: that is what is kept
    return kept(given, run_id)


@routes.get("/sessions/{session_id}/inputs", operation_id="list_inputs", response_model=InputPage)
async def listed(
    request: Request,
    who: Reader,
    session_id: str,
    after: Annotated[int, Query(ge=0, le=MAX_SIZE, description="The last number that is known.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="How many at most.")] = 100,
) -> Response:
    """What was asked of a session, the oldest first."""
    found = await flow.inputs(server_of(request).services, who, session_id, after=after, limit=limit + 1)
    more = found[limit - 1].seq if len(found) > limit else None
    runs = await flow.runs_of(server_of(request).services, session_id, found)
    return page(request, [told(each, runs.get(each.seq)) for each in found[:limit]], more, "after")
