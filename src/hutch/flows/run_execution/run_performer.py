"""Performs a queued run: the agent works on the prompt, then its work is delivered or posted as a review.

An interrupted run is performed again. Its log says how far it got, so no step is done twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from hutch.agent.persona import Persona
from hutch.agent.run_persona_tools_and_rules import Equipment, equip
from hutch.agent.run_setup import RunSetup
from hutch.domain.errors import BadRequest
from hutch.domain.events import ConversationCopied, Entry, RunEnded, RunStarted, SessionWoken, StepReached
from hutch.domain.redaction import Redactor
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import QueuedRun, Session
from hutch.flows import redelivery
from hutch.flows.delivery.deliverability_check_before_run import check_deliverable
from hutch.flows.delivery.delivery_steps import Delivery, DeliveryContext
from hutch.flows.reviews import review_run, reviewing_agent
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.flows.run_execution.option_changes_during_run import OptionChanges
from hutch.flows.run_execution.reply_delta_stream import DeltaStream
from hutch.flows.run_execution.run_setup_builder import RunDefaults, read_at_start
from hutch.flows.run_execution.stored_run_options import RunOptions
from hutch.flows.session_permissions import caller_of
from hutch.flows.user_model_keys import key_owner
from hutch.forge.forge_and_credential_selection import Forges
from hutch.llm.generation_option_check import check_generation
from hutch.llm.interface import Model
from hutch.llm.model_factory import Choice
from hutch.llm.reply_cost import Prices, is_priced, unpriced
from hutch.sessions.host_dependencies_and_callbacks import Done
from hutch.sessions.live_session import LiveSession
from hutch.sessions.state_before_last_run import effective_entries
from hutch.sessions.waiting_run_and_delivery_cancellation import (
    DELIVERED,
    UNDONE,
    first_end,
    report_undelivered,
)
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_record_and_directories import Record

logger = structlog.get_logger()

START_MISSING = "The directory '{directory}' is not committed: the agent starts at the repository's root."
ChooseModel = Callable[[str | None, Path | None, str, Redactor], Awaitable[tuple[Model, Choice]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Performs the runs of a host's sessions."""

    defaults: Callable[[Record], RunDefaults]  # for a workspace
    default_model: str | None
    # Chooses the named model, or the best available one. With a path, records its replies into that file.
    # With the id of a user, their own keys count. Secrets of the redactor are not recorded.
    choose_model: ChooseModel
    network: Callable[[Session], Awaitable[tuple[str, ...]]]  # the hosts that its jail may reach
    limits_cap: Callable[[Session], Awaitable[RunLimits]]  # that its owner may not exceed
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
            ended = await self._work(live, session, run, entries, reopened=woken_since(whole))
        if session.delivery.review:
            if ended.outcome in reviewing_agent.FINISHED:
                await review_run.give(self.delivery().changes, live, session, run)
        else:
            record = redelivery.read(entries, run.id)
            if (session.deliver or record.requested) and (ended.outcome in DELIVERED or record.failing):
                await Delivery(self.delivery(), live, session, run, ended).complete()
        return Done(ended.outcome, ended.reason)

    async def _work(
        self,
        live: LiveSession,
        session: Session,
        run: QueuedRun,
        entries: Sequence[Entry],
        *,
        reopened: bool,
    ) -> RunEnded:
        is_begun = any(isinstance(each.event, RunStarted) and each.event.run_id == run.id for each in entries)
        if session.deliver and not is_begun:
            await self._check_deliverable(live, session)
        start_in = session.delivery.start_in
        if start_in and not live.sandbox.shells.start_in and not is_begun:
            missing = f"warning: {START_MISSING.format(directory=start_in)}"
            await live.append([StepReached(step="inspecting", message=missing)])
        await live.adjust()  # its owner may have become a member since the jail was opened
        defaults = self.defaults(live.sandbox.workspace.record)
        channels = live.dependencies.channels
        stream = DeltaStream(
            run.id,
            live.recorder.redactor,
            lambda delta: channels.publish(live.id, delta, after=live.recorder.last_seq),
            lambda: channels.end_reply(live.id),
        )
        live.recorder.listeners.append(stream.end_turns)
        builder = _SetupBuilder(self, live, run, entries, defaults, stream)
        changes = OptionChanges(live, builder.build)
        try:
            setup = await changes.begin(session)
            if is_begun:
                return (await resume_run(setup, run.id, entries)).ended
            if builder.warnings:
                messages = (f"warning: {each}" for each in builder.warnings)
                await live.append([StepReached(step="inspecting", message=each) for each in messages])
            options = RunOptions(
                network=await self.network(session),
                limits=session.limits,
                record=session.delivery.record,
                deliver=session.deliver,
                author=session.delivery.author,
                model_reason=builder.reason,
            )
            prompt = builder.prompt
            return (await begin(setup, run.id, prompt, entries, options=options, reopened=reopened)).ended
        finally:
            live.recorder.listeners.remove(stream.end_turns)
            channels.end_reply(live.id)
            await changes.close()

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


class _SetupBuilder:
    """Builds the setups of one run: at its start, and when a user has changed the session's options."""

    def __init__(
        self,
        performer: Performer,
        live: LiveSession,
        run: QueuedRun,
        entries: Sequence[Entry],
        defaults: RunDefaults,
        stream: DeltaStream,
    ) -> None:
        self._performer, self._live, self._run, self._entries = performer, live, run, entries
        self._defaults, self._stream = defaults, stream
        self._review: Equipment | None = None
        self._named: str | None = None  # the model that was asked for
        self.prompt = run.prompt
        self.reason = ""  # why it is this model
        self.warnings: tuple[str, ...] = ()  # parts of the repository's persona without effect, cost limits

    async def build(self, session: Session, current: RunSetup | None) -> RunSetup:
        prices, live = self._defaults.prices, self._live
        persona = self._load_persona(session)
        name, reason = self._name_model(session, persona)
        is_capped = session.limits.cost_usd is not None
        if is_capped and name and (problem := await _find_unpriced(name, prices)):
            raise BadRequest(problem)
        if current is not None and name == self._named:
            model = current.model
        else:
            record = Path(session.delivery.record) if session.delivery.record else None
            user_id = await key_owner(live.dependencies.rows, session, self._run, await live.entries())
            redactor = live.recorder.redactor
            model, choice = await self._performer.choose_model(name, record, user_id, redactor)
            self.reason, self._named = reason or choice.reason, name
        try:
            equipment = await self._equip(session, persona, model.name)
            persona = equipment.persona
            self.warnings = persona.ignored
            if persona.limits.tightened(persona.repository_limits).cost_usd is not None:
                unlimited = await _find_unpriced(model.name, prices)
                self.warnings += (unlimited,) if unlimited else ()
            setup = await self._defaults.build(
                live,
                session,
                model,
                equipment,
                self._stream.add,
                generation=self._run.generation,
                cap=await self._performer.limits_cap(session),
            )
            check_generation(model.name, setup.generation)
            return setup
        except BaseException:
            if current is None or model is not current.model:
                await model.close()
            raise

    def _load_persona(self, session: Session) -> Persona:
        live, defaults = self._live, self._defaults
        if session.delivery.review:
            return defaults.find_persona(reviewing_agent.PERSONA, live.tools)
        read = read_at_start(live.sandbox.workspace, self._entries)
        return defaults.load_persona(session.persona, live.tools, read)

    def _name_model(self, session: Session, persona: Persona) -> tuple[str | None, str]:
        """The model of a run and why; None when the best available is used."""
        if session.model:
            return session.model, ""
        if persona.model:
            return persona.model, f"named by the persona {persona.name}"
        default = self._performer.default_model
        return default, "from the setting `model`" if default else ""

    async def _equip(self, session: Session, persona: Persona, model: str) -> Equipment:
        if not session.delivery.review:
            return equip(persona, self._live.tools)
        if self._review is None:
            changes = self._performer.delivery().changes
            self.prompt, self._review = await review_run.equip(
                changes, self._live, persona, session, self._run, self._entries, model
            )
        return self._review


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
