"""Runs a review in a session: equips its agent, and publishes its findings once."""

import asyncio
from collections.abc import Sequence

import structlog

from hutch.agent.persona import Persona
from hutch.agent.run_persona_tools_and_rules import Equipment
from hutch.domain.errors import Conflict, HutchError, Unavailable
from hutch.domain.events import DeliveryEnded, Entry, ReviewSubmitted, RunStarted, StepReached
from hutch.domain.no_model_messages import BY_FIELD, is_offline_script, no_model_on_server_message
from hutch.domain.session import QueuedRun, Session
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.reviews import reviewing_agent
from hutch.flows.reviews.agent_review_publication import finish_despite_cancel, given, keep
from hutch.flows.reviews.review_subject import Subject, find_subject
from hutch.forge.interface import SETTLE_DELAY_S
from hutch.sessions.host_dependencies_and_callbacks import HostDependencies
from hutch.sessions.live_session import LiveSession
from hutch.sessions.run_worker import FAULT
from hutch.sessions.state_before_last_run import effective_entries
from hutch.system.clock_without_jumps import remaining_s, wall_ms

logger = structlog.get_logger()


async def equip(
    context: ChangeContext,
    live: LiveSession,
    persona: Persona,
    session: Session,
    run: QueuedRun,
    entries: Sequence[Entry],
    model: str,
) -> tuple[str, Equipment]:
    """The complete prompt of a reviewing run, and its equipment."""
    if is_offline_script(model):
        raise Unavailable(no_model_on_server_message(BY_FIELD))
    workspace = live.sandbox.workspace
    subject = await _subject(context, live.dependencies, session, workspace.record.commit)
    begun = any(isinstance(each.event, RunStarted) and each.event.run_id == run.id for each in entries)
    if subject.moved_to and not begun:
        raise Conflict(
            f"New commits were pushed to {subject.pull_url} before the review of {subject.commit[:12]} "
            f"started. It is at {subject.moved_to[:12]} now. Request a review of that commit."
        )
    before = len(reviewing_agent.remarks_in(entries, run.id))
    equipment = await reviewing_agent.equip_reviewer(workspace, live.tools, persona, subject, before)
    return f"{reviewing_agent.prompt(subject)}\n\n{run.prompt}", equipment


async def give(context: ChangeContext, live: LiveSession, session: Session, run: QueuedRun) -> None:
    """Publish the review of a run, or record why that failed, as the last event about the run."""
    entries = effective_entries(await live.entries())
    done = (ReviewSubmitted, DeliveryEnded)
    if any(isinstance(each.event, done) and each.event.run_id == run.id for each in entries):
        return
    clean = live.dependencies.redactor.redact
    try:
        subject = await _subject(context, live.dependencies, session, live.sandbox.workspace.record.commit)
        if subject.pull_url:
            await _once(live, run, entries)
        event: ReviewSubmitted | DeliveryEnded = await finish_despite_cancel(
            _save_review(context, live, session, run, subject, entries), unless=lambda: live.leaves_open
        )
    except HutchError as error:
        event = DeliveryEnded(run_id=run.id, outcome="failed", reason=clean(str(error)))
    except Exception:
        logger.exception("review.failed", session_id=live.id, run_id=run.id)
        event = DeliveryEnded(run_id=run.id, outcome="failed", reason=FAULT)
    await live.append([event])


async def _save_review(
    context: ChangeContext,
    live: LiveSession,
    session: Session,
    run: QueuedRun,
    subject: Subject,
    entries: Sequence[Entry],
) -> ReviewSubmitted:
    review, remarks = reviewing_agent.concluded(subject, entries, live.id, run.id)
    user = session.owner if live.dependencies.guarded else ""
    kept = await keep(context, subject, review, remarks, user=user)
    return given(kept, remarks)


async def _once(live: LiveSession, run: QueuedRun, entries: Sequence[Entry]) -> None:
    """Record that a review is about to be posted.

    If a crash followed such a record, the review may be posted already: wait until the forge would show it.
    """
    noted = [
        each.at_ms
        for each in entries
        if isinstance(each.event, StepReached) and (each.event.step, each.event.run_id) == ("opening", run.id)
    ]
    if noted:
        await asyncio.sleep(remaining_s(noted[-1], SETTLE_DELAY_S, wall_ms()))
    else:
        await live.append([StepReached(step="opening", message="Posting the review...", run_id=run.id)])


async def _subject(
    context: ChangeContext, dependencies: HostDependencies, session: Session, commit: str | None
) -> Subject:
    """The subject of the review at the commit in the workspace, even if the pull request has moved on."""
    target, user = session.delivery.review, session.owner if dependencies.guarded else ""
    return (await find_subject(context, target, user=user, commit=commit or ""))[1]
