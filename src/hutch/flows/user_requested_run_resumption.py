"""Resumes a stopped run from its log.

The options of its start still apply, unless the caller gives others. Its usage so far counts:
a run that reached a limit resumes only with a higher one.
"""

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.events import RunResumed
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.inputs import Resume
from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.domain.session import NewSession, QueuedRun, Session
from hutch.domain.user import Caller
from hutch.flows import run_redelivery, sessions
from hutch.flows.candidate_input_restrictions import check_candidate_options
from hutch.flows.flow_services import Services
from hutch.flows.member_session_caps import is_capped
from hutch.flows.new_session_validation import check_limits, check_request
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from hutch.store.shares import Shares


async def resume(
    services: Services,
    who: Caller,
    run_id: str,
    *,
    limits: RunLimits = NO_LIMITS,
    model: str = "",
    generation: Generation = NO_GENERATION,
    deliver: bool | None = None,
) -> QueuedRun:
    """Resume a run that was stopped, paused, or ended at a limit."""
    runs = Runs(services.rows)
    await runs.pause_abandoned()
    if services.reserved_for:  # this process works without a server: take over the runs that one left
        await runs.take_over(run_id)
    run = await sessions.run(services, who, run_id)
    session = await sessions.allowed(services, who, run.session_id, "input", scope="prompt")
    if (model or limits != NO_LIMITS or generation != NO_GENERATION) and not who.is_owner:
        check_candidate_options(await Shares(services.rows).find(session.id, who.user.id))
    _check(run, session)
    if deliver is not None and deliver != session.deliver:
        run_redelivery.check_may_set_delivery(who, session, deliver=deliver)
    if run.state == "ended" and run.outcome == "done":  # its work was not delivered yet
        return await run_redelivery.deliver(services, who, run_id)
    if model or generation != NO_GENERATION:
        options = generation.or_else(session.generation)
        new = NewSession(model=model or session.model, persona=session.persona, generation=options)
        await check_request(services, who, new)
    await check_limits(services, NewSession(limits=limits), capped=await is_capped(services.rows, session))
    await Sessions(services.rows).set_run_options(
        session.id,
        limits=limits.or_else(session.limits),
        model=model or session.model,
        generation=generation.or_else(session.generation),
        deliver=session.deliver if deliver is None else deliver,
    )
    if run.state != "ended":  # it is paused
        await sessions.give(services, who, session.id, Resume())
        return await sessions.run(services, who, run_id)
    resumed = RunResumed(
        run_id=run.id,
        by=who.user.id,
        model=model,
        **limits.event_fields(),
    )
    await services.log.append(session.id, [resumed])
    await runs.requeue_ended(run.id, worker=services.reserved_for)
    await services.host.input(session.id)
    return await sessions.run(services, who, run_id)


def _check(run: QueuedRun, session: Session) -> None:
    is_done = run.state == "ended" and run.outcome == "done" and not session.deliver
    is_proposed = run.delivered is not None and run.delivered.outcome == "proposed"
    if is_done or is_proposed:
        raise BadRequest(
            f"The run {run.id} has ended ({run.outcome}), and nothing is left to do. "
            "Start another with hutch run."
        )
    if session.state == "ended":
        raise BadRequest(f"The session of the run {run.id} has ended. Start another with hutch run.")
    if run.kind != "prompt":
        raise BadRequest(f"The session {session.id} was stopped before its run started. Give it a prompt.")
    if run.state in ("queued", "running") and session.state != "paused":
        raise Conflict(f"The run {run.id} is {run.state} already. Watch it: hutch attach {session.id}")
