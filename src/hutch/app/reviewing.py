"""How a session of a server reviews: equipped for that alone, and what it finds is kept once."""

import asyncio
from collections.abc import Sequence

import structlog

from hutch.agent.limits import RunLimits
from hutch.app import reviews
from hutch.app.personas import find_persona
from hutch.domain.errors import Conflict, HutchError, Unavailable
from hutch.domain.events import DeliveryEnded, Entry, ReviewGiven, RunStarted, StepReached
from hutch.domain.session import QueuedRun, Session
from hutch.domain.stand_in import BY_FIELD, is_stand_in, no_model_there
from hutch.flows import ai_review
from hutch.flows.ai_review import Subject
from hutch.flows.code_change import Bench
from hutch.forge.seam import SETTLE_S
from hutch.sessions.grounds import Grounds
from hutch.sessions.live import Live
from hutch.sessions.rewind import still_told
from hutch.sessions.worker import FAULT
from hutch.settings import Loaded
from hutch.system.clock import remaining_s, wall_ms

logger = structlog.get_logger()


async def equip(
    loaded: Loaded,
    grounds: Grounds,
    bench: Bench,
    session: Session,
    run: QueuedRun,
    entries: Sequence[Entry],
    limits: RunLimits,
) -> str:
    """Make a run one that reviews. The whole prompt, which is made when it begins."""
    if is_stand_in(bench.model.name):
        raise Unavailable(no_model_there(BY_FIELD))
    subject = await _subject(loaded, grounds, session, bench.context.workspace.record.commit)
    begun = any(isinstance(each.event, RunStarted) and each.event.run_id == run.id for each in entries)
    if subject.moved_to and not begun:
        raise Conflict(
            f"{subject.pull_url} was pushed to before anybody had read {subject.commit[:12]}: it is at "
            f"{subject.moved_to[:12]} now. Have that reviewed."
        )
    before = len(ai_review.remarks_in(entries, run.id))
    await ai_review.equip(bench, find_persona(loaded, ai_review.PERSONA), subject, limits, before)
    return f"{ai_review.prompt(subject)}\n\n{run.prompt}"


async def give(loaded: Loaded, live: Live, session: Session, run: QueuedRun) -> None:
    """Keep what a run has found, or say why it was not; that is the last word on it."""
    entries = still_told(await live.entries())
    done = (ReviewGiven, DeliveryEnded)
    if any(isinstance(each.event, done) and each.event.run_id == run.id for each in entries):
        return
    clean = live.grounds.redactor.clean
    try:
        subject = await _subject(loaded, live.grounds, session, live.desk.workspace.record.commit)
        if subject.pull_url:
            await _once(live, run, entries)
        event: ReviewGiven | DeliveryEnded = await reviews.seen_through(
            _kept(loaded, live, session, run, subject, entries), unless=lambda: live.leaves_open
        )
    except HutchError as error:
        event = DeliveryEnded(run_id=run.id, outcome="failed", reason=clean(str(error)))
    except Exception:
        logger.exception("review.failed", session_id=live.id, run_id=run.id)
        event = DeliveryEnded(run_id=run.id, outcome="failed", reason=FAULT)
    await live.append([event])


async def _kept(
    loaded: Loaded,
    live: Live,
    session: Session,
    run: QueuedRun,
    subject: Subject,
    entries: Sequence[Entry],
) -> ReviewGiven:
    review, remarks = ai_review.concluded(subject, entries, live.id, run.id)
    user = session.owner if live.grounds.guarded else ""
    kept = await reviews.keep(loaded, live.grounds.rows, subject, review, remarks, user=user)
    return reviews.given(kept, remarks)


async def _once(live: Live, run: QueuedRun, entries: Sequence[Entry]) -> None:
    """Note that a review is about to be posted. Who finds that noted waits until it is there to be found."""
    noted = [
        each.at_ms
        for each in entries
        if isinstance(each.event, StepReached) and (each.event.step, each.event.run_id) == ("opening", run.id)
    ]
    if noted:
        await asyncio.sleep(remaining_s(noted[-1], SETTLE_S, wall_ms()))
    else:
        await live.append([StepReached(step="opening", message="Posting the review...", run_id=run.id)])


async def _subject(loaded: Loaded, grounds: Grounds, session: Session, commit: str | None) -> Subject:
    """What is reviewed; the commit is the one that lies in the workspace, whatever was pushed since."""
    target, user = session.delivery.review, session.owner if grounds.guarded else ""
    return (await reviews.subject_of(loaded, grounds.rows, target, user=user, commit=commit or ""))[1]
