"""The inputs of a session, in order."""

from typing import Annotated, Any, Literal

import orjson
from fastapi import Body, Query, Request, Response
from pydantic import Field

from hutch.domain.inputs import AnyInput
from hutch.domain.session import SessionInput
from hutch.flows import sessions as flow
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKeyWithRow
from hutch.gateway.request_and_response_bodies import MAX_ITEMS, MAX_SIZE, Out, answer, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("inputs")

EXAMPLES = {
    "prompt": {"value": {"type": "prompt", "text": "Make the failing test pass."}},
    "approve": {"value": {"type": "approve", "call_id": "call_1", "scope": "once"}},
    "end": {"value": {"type": "end", "reason": "It is merged."}},
}


class WithheldInput(Out):
    """An input that answers a question for another user."""

    type: str
    withheld: Literal[True]


class InputOut(Out):
    """An input with its number."""

    seq: int = Field(ge=1)
    at_ms: int
    by: str = Field(description="The user who gave it.")
    processed: bool = Field(description="Its result is in the log.")
    run_id: str | None = Field(description="The run that it started or reached, once known.")
    input: AnyInput | WithheldInput


class InputPage(Out):
    """Inputs, the oldest first; `next` is `after` of the next page, null on the last."""

    items: list[InputOut]
    next: int | None


def input_json(stored: SessionInput, run_id: str | None = None) -> dict[str, Any]:
    return {
        "seq": stored.seq,
        "at_ms": stored.at_ms,
        "by": stored.by,
        "processed": stored.processed or run_id is not None,
        "run_id": run_id,
        "input": orjson.Fragment(stored.body),
    }


def accepted_response(stored: SessionInput, run_id: str | None = None) -> Response:
    """The response to an accepted input."""
    return answer(input_json(stored, run_id), 202)


@routes.post(
    "/sessions/{session_id}/inputs", status_code=202, operation_id="give_input", response_model=InputOut
)
async def give(
    request: Request,
    caller: Writer,
    keyed: ByKeyWithRow,
    session_id: str,
    input: Annotated[AnyInput, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """Give an input to a session. It is stored when this returns; its result is in the log."""
    services = server_of(request).services
    stored = await flow.give(services, caller, session_id, input, also=keyed.store_answer(accepted_response))
    run_id = (await flow.runs_of(services, session_id, [stored])).get(stored.seq)
    keyed.is_stored = keyed.is_stored and run_id is None  # store the response with the run's id instead
    return accepted_response(stored, run_id)


@routes.get("/sessions/{session_id}/inputs", operation_id="list_inputs", response_model=InputPage)
async def listed(
    request: Request,
    caller: Reader,
    session_id: str,
    after: Annotated[
        int, Query(ge=0, le=MAX_SIZE, description="The number of the last input that you have.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The maximum number of inputs.")] = 100,
) -> Response:
    """The inputs of a session, the oldest first."""
    found = await flow.inputs(server_of(request).services, caller, session_id, after=after, limit=limit + 1)
    more = found[limit - 1].seq if len(found) > limit else None
    runs = await flow.runs_of(server_of(request).services, session_id, found)
    return page(request, [input_json(each, runs.get(each.seq)) for each in found[:limit]], more, "after")
