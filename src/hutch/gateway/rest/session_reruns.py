"""Runs recorded sessions again from a point, and compares the results."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.domain import session as domain
from hutch.flows.session_rerun import RunNumbers, compare_runs, rerun
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKeyWithRow
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.sessions import SessionOut, created_response_for

routes = router("sessions")
SessionName = Annotated[str, Path(max_length=80)]


class RerunIn(In):
    """Options of a rerun; empty ones stay as they were."""

    event: int = Field(ge=1, le=MAX_SIZE, description="What came after this event is done again.")
    model: Annotated[str, Field(max_length=500)] = ""
    persona: Annotated[str, Field(max_length=100)] = ""
    prompt: Annotated[str, Field(max_length=200_000)] = Field(
        "", description="Empty: the prompt of that run, or to continue if the agent had begun."
    )


@fields_from(
    RunNumbers,
    "session model persona outcome reason tests turns tokens cost_usd duration_s files added deleted",
)
class RunNumbersOut(Out):
    """A run from the moment on at which the two part."""


class ComparisonOut(Out):
    """A run and its rerun."""

    original: RunNumbersOut
    rerun: RunNumbersOut


@routes.post(
    "/sessions/{session_id}/rerun", status_code=201, operation_id="rerun_session", response_model=SessionOut
)
async def post_rerun(
    request: Request, caller: Writer, keyed: ByKeyWithRow, session_id: SessionName, body: RerunIn
) -> Response:
    """Run a recorded session again from an event, with another model, persona or prompt, in a fork."""
    made = created_response_for(caller)
    asked = domain.Rerun(event=body.event, model=body.model, persona=body.persona, prompt=body.prompt)
    session = await rerun(
        server_of(request).services,
        caller,
        session_id,
        asked,
        also=keyed.store_answer(lambda opened: made(opened.session)),
    )
    return made(session)


@routes.get("/sessions/{session_id}/comparison", operation_id="compare_rerun", response_model=ComparisonOut)
async def get_comparison(
    request: Request,
    caller: Reader,
    session_id: SessionName,
    rerun: Annotated[str, Query(max_length=80, description="The session of the rerun.")],
) -> Response:
    """The results of a session after the moment of a rerun, and those of the rerun."""
    return answer(await compare_runs(server_of(request).services, caller, session_id, rerun))
