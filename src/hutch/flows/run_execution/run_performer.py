"""Performs a queued run: the agent works on the prompt, then its work is delivered or posted as a review.

An interrupted run is performed again. Its log says how far it got, so no step is done twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from hutch.agent.hooks.hook_runner import Hooks
from hutch.agent.persona import Persona
from hutch.agent.repository_slash_commands import expand_command
from hutch.agent.run_persona_tools_and_rules import Equipment, equip
from hutch.agent.run_setup import RunSetup
from hutch.agent.tools.delegate import DELEGATE
from hutch.domain.errors import BadRequest
from hutch.domain.events import ConversationCopied, Entry, RunEnded, RunStarted, SessionWoken, StepReached
from hutch.domain.redaction import Redactor
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import QueuedRun, Session
from hutch.flows import run_redelivery
from hutch.flows.analytics.budgeted_model import BudgetedModel
from hutch.flows.delivery.deliverability_check_before_run import check_deliverable
from hutch.flows.delivery.delivery_steps import Delivery, DeliveryContext
from hutch.flows.extensions.approved_extensions_of_run import Extensions, RunExtensions
from hutch.flows.helper_agents.helper_rights import HelperLimits, limit_to_rights, without_helpers
from hutch.flows.helper_agents.helper_sessions import HelperSessions
from hutch.flows.hooks.hooks_of_run import HookSources
from hutch.flows.reviews import review_run, reviewing_agent
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.flows.run_execution.option_changes_during_run import OptionChanges
from hutch.flows.run_execution.reply_delta_stream import DeltaStream
from hutch.flows.run_execution.run_setup_builder import RunDefaults, original_reader, read_at_start
from hutch.flows.run_execution.stored_run_options import RunOptions
from hutch.flows.session_permissions import caller_of
from hutch.flows.task_work.criterion_evidence import equip_for_task
from hutch.flows.tries.run_of_several_tries import TriesSetup, tries_setup
from hutch.flows.user_model_keys import key_owner
from hutch.forge.forge_and_credential_selection import Forges
from hutch.llm.generation_option_check import check_generation
from hutch.llm.interface import Model
from hutch.llm.model_factory import Choice
from hutch.llm.reply_cost import Prices, is_priced, unpriced
from hutch.sessions.host_dependencies_and_callbacks import Done
from hutch.sessions.live_session import LiveSession
from hutch.sessions.live_session_host import LocalHost
from hutch.sessions.state_before_last_run import effective_entries
from hutch.sessions.waiting_run_cancellation import (
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
    helper_limits: HelperLimits
    extensions: Extensions
    hooks: HookSources

    async def perform(self, live: LiveSession, run: QueuedRun, host: LocalHost) -> Done:
        """Continue a run where its log ends, then deliver its work. Helpers are sessions of `host`."""
        session = await live.sessions.get(live.id)
        whole = await live.entries()
        entries = effective_entries(whole)
        if undone := _find_undone(whole, entries, run.id):
            await report_undelivered(live, whole, run.id, UNDONE)
            return undone
        ended = first_end(entries, run.id)
        if ended is None:
            ended = await self._work(live, session, run, entries, host, reopened=woken_since(whole))
        if session.delivery.review:
            if ended.outcome in reviewing_agent.FINISHED:
                await review_run.give(self.delivery().changes, live, session, run)
        else:
            record = run_redelivery.read(entries, run.id)
            if (session.deliver or record.requested) and (ended.outcome in DELIVERED or record.failing):
                await Delivery(self.delivery(), live, session, run, ended).complete()
        return Done(ended.outcome, ended.reason)

    async def _work(
        self,
        live: LiveSession,
        session: Session,
        run: QueuedRun,
        entries: Sequence[Entry],
        host: LocalHost,
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
        extensions = self.extensions.for_run(live, session)
        builder = _SetupBuilder(self, live, run, entries, defaults, stream, host, extensions)
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
                jail_s=live.sandbox.start.take(),
            )
            prompt = await expand_command(builder.prompt, original_reader(live))
            return (await begin(setup, run.id, prompt, entries, options=options, reopened=reopened)).ended
        finally:
            live.recorder.listeners.remove(stream.end_turns)
            channels.end_reply(live.id)
            await extensions.close()
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
        host: LocalHost,
        extensions: RunExtensions,
    ) -> None:
        self._host, self._extensions = host, extensions
        self._performer, self._live, self._run, self._entries = performer, live, run, entries
        self._defaults, self._stream = defaults, stream
        self._review: Equipment | None = None
        self._hooks: tuple[Hooks | None, tuple[str, ...]] | None = None
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
        tries = self._tries_setup(session, persona)
        model: Model
        if current is not None and name == self._named:
            model = current.model
        elif tries is not None:
            model, self._named = tries.model, name
        else:
            record = Path(session.delivery.record) if session.delivery.record else None
            user_id = await key_owner(live.dependencies.rows, session, self._run, await live.entries())
            redactor = live.recorder.redactor
            model, choice = await self._performer.choose_model(name, record, user_id, redactor)
            source = live.sandbox.workspace.record.source
            model = BudgetedModel(model, live.dependencies.rows, session.owner, source, prices)
            self.reason, self._named = reason or choice.reason, name
        try:
            if session.parent:
                persona = limit_to_rights(persona, session.helper)
            elif not self._performer.helper_limits.depth or _may_not_fork(session):
                persona = without_helpers(persona)
            equipment = tries.equipment if tries else await self._equip(session, persona, model.name)
            unusable: tuple[str, ...] = ()
            if not session.delivery.review and tries is None:
                equipment, unusable = await self._extensions.add(equipment)
            persona = equipment.persona
            self.warnings = (*persona.ignored, *unusable)
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
                helpers=self._helpers(session, persona) if DELEGATE in persona.tools else None,
                root=await self._find_root(session),
            )
            check_generation(model.name, setup.generation)
            hooks = await self._find_hooks(session)
            return replace(setup, hooks=hooks)
        except BaseException:
            if current is None or model is not current.model:
                await model.close()
            raise

    async def _find_hooks(self, session: Session) -> Hooks | None:
        """The hooks of the run: the same for all its turns."""
        if self._hooks is None:
            self._hooks = await self._performer.hooks.for_run(self._live, session)
            self.warnings += self._hooks[1]
        return self._hooks[0]

    def _helpers(self, session: Session, persona: Persona) -> HelperSessions:
        find, tools = self._defaults.find_persona, self._live.tools
        host, limits = self._host, self._performer.helper_limits
        return HelperSessions(self._live, session, persona, host, lambda name: find(name, tools), limits)

    def _tries_setup(self, session: Session, persona: Persona) -> TriesSetup | None:
        """The setup of the session's first run, if that compares several tries."""
        tries = session.delivery.tries
        if tries.count < 2 or _started_before(self._entries, self._run.id):
            return None
        return tries_setup(self._helpers(session, persona), persona, tries, self._run.prompt)

    async def _find_root(self, session: Session) -> LiveSession | None:
        """The session at the root of a helper's tree; None for an ordinary session."""
        if not session.parent:
            return None
        while session.parent:
            session = await self._live.sessions.get(session.parent)
        return self._host.live(session.id)

    def _load_persona(self, session: Session) -> Persona:
        live, defaults = self._live, self._defaults
        if session.delivery.review:
            return defaults.find_persona(session.persona or reviewing_agent.PERSONA, live.tools)
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
        if session.delivery.task:
            return await equip_for_task(self._live, persona, session)
        if not session.delivery.review:
            return equip(persona, self._live.tools)
        if self._review is None:
            changes = self._performer.delivery().changes
            self.prompt, self._review = await review_run.equip(
                changes, self._live, persona, session, self._run, self._entries, model
            )
        return self._review


def _may_not_fork(session: Session) -> bool:
    """True for reviews, which change nothing, and for work in a user's own directory."""
    return bool(session.delivery.review) or session.delivery.in_place


async def _find_unpriced(model: str, prices: Prices) -> str:
    """Why a cost limit cannot work for a model (its price is unknown); empty if it can."""
    is_known = await asyncio.to_thread(is_priced, model, prices)
    return "" if is_known else unpriced(model)


def _started_before(entries: Sequence[Entry], run_id: str) -> bool:
    """True if another run of the session has started before this one."""
    events = (entry.event for entry in entries)
    return any(isinstance(each, RunStarted) and each.run_id != run_id for each in events)


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
