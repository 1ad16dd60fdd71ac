"""Performs a queued run: the agent works on the prompt, then its work is delivered or posted as a review.

An interrupted run is performed again. Its log says how far it got, so no step is done twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from hutch.agent.persona import Persona
from hutch.agent.persona_and_tools import Equipment, equip
from hutch.domain.errors import BadRequest
from hutch.domain.events import ConversationCopied, Entry, RunEnded, RunStarted, SessionWoken, StepReached
from hutch.domain.session import QueuedRun, Session
from hutch.flows import redelivery
from hutch.flows.delivery.driver import Delivery, DeliveryContext
from hutch.flows.delivery.preflight import check_deliverable
from hutch.flows.reviews import review_run, reviewing_agent
from hutch.flows.run_execution.agent_work import begin, resume_run
from hutch.flows.run_execution.delta_stream import DeltaStream
from hutch.flows.run_execution.run_options import RunOptions
from hutch.flows.run_execution.setup_builder import RunDefaults, read_at_start
from hutch.flows.session_access import caller_of
from hutch.forge.forge_selection import Forges
from hutch.llm.interface import Model
from hutch.llm.model_factory import Choice
from hutch.llm.prices import Prices, is_priced, unpriced
from hutch.sessions.host_dependencies import Done
from hutch.sessions.live_session import LiveSession
from hutch.sessions.rewind_point import effective_entries
from hutch.sessions.run_cancellation import DELIVERED, UNDONE, first_end, report_undelivered
from hutch.workspace.preparation.workspace_record import Record

logger = structlog.get_logger()

START_MISSING = "The directory '{directory}' is not committed: the agent starts at the repository's root."
ChooseModel = Callable[[str | None, Path | None], Awaitable[tuple[Model, Choice]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Performs the runs of a host's sessions."""

    defaults: Callable[[Record], RunDefaults]  # for a workspace
    default_model: str | None
    # Chooses the named model, or the best available one. With a path, records its replies into that file.
    choose_model: ChooseModel
    network: Callable[[Session], Awaitable[tuple[str, ...]]]  # the hosts that its jail may reach
    forges: Callable[[], Forges]
    delivery: Callable[[], DeliveryContext]

    async def perform(self, live: LiveSession, run: QueuedRun) -> Done:
        """Continue a run where its log ends, then deliver its work."""
        session = await live.sessions.get(live.id)
        whole = await live.entries()
        entries = effective_entries(whole)
        if undone := _find_undone(whole, entries, run.id):
            await report_undelivered(live, whole, run.id, UNDONE)
            return undone
        ended = first_end(entries, run.id)
        if ended is None:
            ended = await self._work(live, session, run, entries)
        if session.delivery.review:
            if ended.outcome in reviewing_agent.FINISHED:
                await review_run.give(self.delivery().changes, live, session, run)
        else:
            record = redelivery.read(entries, run.id)
            if (session.deliver or record.asked) and (ended.outcome in DELIVERED or record.failing):
                await Delivery(self.delivery(), live, session, run, ended).complete()
        return Done(ended.outcome, ended.reason)

    async def _work(
        self, live: LiveSession, session: Session, run: QueuedRun, entries: Sequence[Entry]
    ) -> RunEnded:
        is_begun = any(isinstance(each.event, RunStarted) and each.event.run_id == run.id for each in entries)
        if session.deliver and not is_begun:
            await self._check_deliverable(live, session)
        start_in = session.delivery.start_in
        if start_in and not live.sandbox.shells.start_in and not is_begun:
            missing = f"warning: {START_MISSING.format(directory=start_in)}"
            await live.append([StepReached(step="inspecting", message=missing)])
        defaults = self.defaults(live.sandbox.workspace.record)
        persona = self._load_persona(live, session, entries, defaults)
        name, reason = self._name_model(session, persona)
        is_capped = session.limits.cost_usd is not None
        if is_capped and name and (problem := await _find_unpriced(name, defaults.prices)):
            raise BadRequest(problem)
        record = Path(session.delivery.record) if session.delivery.record else None
        model, choice = await self.choose_model(name, record)
        stream = DeltaStream(
            run.id,
            live.recorder.redactor,
            lambda delta: live.dependencies.channels.publish(live.id, delta, after=live.recorder.last_seq),
        )
        live.recorder.listeners.append(stream.end_turns)
        try:
            prompt, equipment = await self._equip(live, session, run, entries, model.name, persona)
            persona = equipment.persona
            is_costly = persona.limits.tightened(persona.repository_limits).cost_usd is not None
            if is_costly and not is_begun and (problem := await _find_unpriced(model.name, defaults.prices)):
                await live.append([StepReached(step="inspecting", message=f"warning: {problem}")])
            setup = await defaults.build(live, session, model, equipment, stream.add)
            if is_begun:
                return (await resume_run(setup, run.id, entries)).ended
            options = RunOptions(
                network=await self.network(session),
                limits=session.limits,
                record=session.delivery.record,
                deliver=session.deliver,
                author=session.delivery.author,
                model_reason=reason or choice.reason,
            )
            reopened = woken_since(await live.entries())
            return (await begin(setup, run.id, prompt, entries, options=options, reopened=reopened)).ended
        finally:
            live.recorder.listeners.remove(stream.end_turns)
            await model.close()

    def _load_persona(
        self, live: LiveSession, session: Session, entries: Sequence[Entry], defaults: RunDefaults
    ) -> Persona:
        if session.delivery.review:
            return defaults.find_persona(reviewing_agent.PERSONA, live.tools)
        read = read_at_start(live.sandbox.workspace, entries)
        return defaults.load_persona(session.persona, live.tools, read)

    def _name_model(self, session: Session, persona: Persona) -> tuple[str | None, str]:
        """The model of a run and why; None when the best available is used."""
        if session.model:
            return session.model, ""
        if persona.model:
            return persona.model, f"named by the persona {persona.name}"
        return self.default_model, "from the setting `model`" if self.default_model else ""

    async def _equip(
        self,
        live: LiveSession,
        session: Session,
        run: QueuedRun,
        entries: Sequence[Entry],
        model: str,
        persona: Persona,
    ) -> tuple[str, Equipment]:
        if session.delivery.review:
            changes = self.delivery().changes
            return await review_run.equip(changes, live, persona, session, run, entries, model)
        return run.prompt, equip(persona, live.tools)

    async def _check_deliverable(self, live: LiveSession, session: Session) -> None:
        """Refuse to start work that could not be delivered."""
        warning = await check_deliverable(
            self.forges(),
            live.sandbox.workspace,
            address=live.dependencies.address_of(session),
            caller=await caller_of(live.dependencies, session),
            once=session.delivery.once,
        )
        if warning:
            logger.warning("session.no_pull_request", session_id=session.id, problem=warning)
            await live.append([StepReached(step="inspecting", message=f"warning: {warning}")])


async def _find_unpriced(model: str, prices: Prices) -> str:
    """Why a cost limit cannot work for a model (its price is unknown); empty if it can."""
    is_known = await asyncio.to_thread(is_priced, model, prices)
    return "" if is_known else unpriced(model)


def _find_undone(whole: Sequence[Entry], counted: Sequence[Entry], run_id: str) -> Done | None:
    """If a user has undone this run, how it had ended, else None.

    An undone run is neither performed nor delivered again.
    """

    def is_begun(entries: Sequence[Entry]) -> bool:
        events = (entry.event for entry in entries)
        return any(isinstance(each, RunStarted | RunEnded) and each.run_id == run_id for each in events)

    if is_begun(counted) or not is_begun(whole):
        return None
    ended = first_end(whole, run_id)
    return Done(ended.outcome, ended.reason) if ended else Done("cancelled", UNDONE)


def woken_since(entries: Sequence[Entry]) -> bool:
    """True when the shells are newer than the last run: the session was parked or forked, or its server
    killed."""
    about = (RunStarted, SessionWoken, ConversationCopied)
    kinds = [entry.event.type for entry in entries if isinstance(entry.event, about)]
    has_run = "run.started" in kinds or "conversation.copied" in kinds
    return has_run and kinds[-1] != "run.started"
