"""Runs: what became of each prompt."""

from typing import Any

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.session import QueuedRun, RunState
from hutch.flows import sessions as flow
from hutch.gateway.answers import Cursor, Limit, Out, Page, answer, page
from hutch.gateway.auth.who import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.rest.route import router, server_of

routes = router("runs")


class RunOut(Out):
    """One go of an agent at a prompt."""

    id: str = Field(examples=["run_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    session_id: str
    owner: str
    prompt: str
    input: int = Field(description="The number of the input that it came with; 0 is the session's first.")
    state: RunState
    queued_ms: int
    started_ms: int = Field(description="0 before it has begun.")
    ended_ms: int = Field(description="0 before it has ended.")
    outcome: str = Field(description="How it ended: done, tests_failing, cancelled, failed and others.")
    reason: str


def told(run: QueuedRun) -> dict[str, Any]:
    return {name: getattr(run, name) for name in RunOut.model_fields}


@routes.get("/sessions/{session_id}/runs", operation_id="list_runs", response_model=Page[RunOut])
async def listed(
    request: Request, who: Reader, session_id: str, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The runs of a session, the newest first."""
    found = await flow.runs(server_of(request).site, who, session_id, before=cursor, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    return page(request, [told(each) for each in found[:limit]], more)


@routes.get("/runs/{run_id}", operation_id="get_run", response_model=RunOut)
async def show(request: Request, who: Reader, run_id: str) -> Response:
    """One run."""
    return answer(told(await flow.run(server_of(request).site, who, run_id)))


@routes.post("/runs/{run_id}/deliver", operation_id="deliver_run", status_code=202, response_model=RunOut)
async def deliver(request: Request, who: Writer, once: ByKey, run_id: str) -> Response:
    """Hand over what a run did, when that failed: GitHub was down, or a branch was protected. What comes of
    it is in the session's events: `delivery.ended`."""
    return answer(told(await flow.deliver_again(server_of(request).site, who, run_id)), 202)
