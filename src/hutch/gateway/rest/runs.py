"""The runs of sessions."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.generation_option_fields import GenerationFields
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import DeliveryResult, QueuedRun
from hutch.flows import run_redelivery, user_requested_run_resumption
from hutch.flows import sessions as flow
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.idempotency import ByKey, ByKeyWithRow
from hutch.gateway.request_and_response_bodies import Cursor, In, Limit, Out, Page, answer, fields_from, paged
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.run_and_command_limit_fields import Limits

routes = router("runs")


@fields_from(DeliveryResult)
class DeliveredOut(Out):
    """The last attempt to deliver the result of a run."""

    outcome: str = Field(description="proposed; nothing, if no file was changed; or failed.")
    reason: str = Field(description="Why it failed.")
    failing: bool = Field(description="It failed because tests fail. See `failing` of deliver_run.")


@fields_from(
    QueuedRun,
    "id session_id owner prompt input state queued_ms started_ms ended_ms outcome reason delivered",
)
class RunOut(Out):
    """The work of an agent on one prompt."""

    id: str = Field(examples=["run_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    input: int = Field(
        description="The number of the input that started it; 0 is the session's first prompt."
    )
    started_ms: int = Field(description="0 before it has started.")
    ended_ms: int = Field(description="0 before it has ended.")
    outcome: str = Field(description="The outcome: done, tests_failing, cancelled, failed and others.")
    delivered: DeliveredOut | None = Field(description="Null if no delivery was attempted yet.")


class DeliverIn(In):
    """Options of a delivery."""

    failing: bool = Field(
        False,
        description="Propose the change although its tests fail, or a text in it looks like a credential.",
    )


class ResumeIn(In):
    """Options from now on; omitted ones stay as they are."""

    limits: Limits = Field(default_factory=Limits)
    model: Annotated[str, Field(max_length=500)] = Field("", description="`provider:name`.")
    generation: GenerationFields = Field(default_factory=GenerationFields)
    deliver: bool | None = Field(
        None, description="Whether the result is delivered. Only the session's owner can change it."
    )


@routes.get("/sessions/{session_id}/runs", operation_id="list_runs", response_model=Page[RunOut])
async def listed(
    request: Request, caller: Reader, session_id: str, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The runs of a session, the newest first."""
    found = await flow.runs(server_of(request).services, caller, session_id, before=cursor, limit=limit + 1)
    return paged(request, found, limit, RunOut)


@routes.get("/runs/{run_id}", operation_id="get_run", response_model=RunOut)
async def show(request: Request, caller: Reader, run_id: str) -> Response:
    """One run."""
    return answer(RunOut.of(await flow.run(server_of(request).services, caller, run_id)))


@routes.post("/runs/{run_id}/deliver", operation_id="deliver_run", status_code=202, response_model=RunOut)
async def deliver(
    request: Request,
    caller: Writer,
    authenticator: AuthenticatorDep,
    keyed: ByKeyWithRow,  # a repeated delivery is executed once anyway, even after a crash
    run_id: str,
    body: DeliverIn | None = None,
) -> Response:
    """Retry a delivery that failed: GitHub was down, a branch was protected or, with `failing`, tests fail.

    A delivered change stays as it is. The result is in `delivered` of the run, and in the session's event
    `delivery.ended`.
    """
    failing = body is not None and body.failing
    run = await run_redelivery.deliver(server_of(request).services, caller, run_id, failing=failing)
    detail = "its tests fail" if failing else ""
    await authenticator.accounts.note(
        authenticator.actor(request.scope, caller), "run.deliver_asked", run_id, detail=detail
    )
    return answer(RunOut.of(run), 202)


@routes.post("/runs/{run_id}/resume", operation_id="resume_run", status_code=202, response_model=RunOut)
async def resume(
    request: Request, caller: Writer, keyed: ByKey, run_id: str, body: ResumeIn | None = None
) -> Response:
    """Resume a run that was stopped, paused, or ended at a limit.

    Its usage so far counts: after a limit, send a higher one.
    """
    body = body or ResumeIn()
    bounds = RunLimits(**body.limits.model_dump())
    services = server_of(request).services
    resumed = await user_requested_run_resumption.resume(
        services,
        caller,
        run_id,
        limits=bounds,
        model=body.model,
        generation=body.generation.to_generation(),
        deliver=body.deliver,
    )
    return answer(RunOut.of(resumed), 202)
