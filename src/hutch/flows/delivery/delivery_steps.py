"""Delivers the work of a run: once, step by step, and recorded in the log.

Steps done before a crash are found and not repeated: the commit, the branch, the pull request, the row of
the change and its events.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial

import structlog

from hutch.domain.commit_text import one_line, strip_controls
from hutch.domain.errors import HutchError
from hutch.domain.events import (
    ChangeProposed,
    DeliveryEnded,
    DeliveryRequested,
    Entry,
    Event,
    RunEnded,
    StepReached,
)
from hutch.domain.proposed_change import Change
from hutch.domain.run_events import STORED_SECRET, SUSPECTED_SECRET
from hutch.domain.session import QueuedRun, Session
from hutch.flows import run_redelivery
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.delivery.baseline_tests import compare_with_base
from hutch.flows.delivery.secret_search import FoundSecret, SecretSearch, describe_secrets, search_work
from hutch.flows.delivery.snapshot_commit_and_proposal import Proposal, propose
from hutch.flows.delivery.snapshot_test_sandbox import ScratchSandboxes
from hutch.flows.pull_request_text import About, describe_tests, pull_text, ran_before
from hutch.flows.run_facts_from_log import RunHistory, proposed_in, read_run_history
from hutch.flows.session_permissions import caller_of
from hutch.forge.forge_and_credential_selection import COMMAND_LINE, ForgeAccess
from hutch.forge.interface import Forge, OnStep, Step, ignore_step
from hutch.sessions.live_session import LiveSession
from hutch.sessions.run_worker import FAULT
from hutch.sessions.state_before_last_run import effective_entries
from hutch.sessions.waiting_run_cancellation import CANCELLED, DELIVERED, undelivered
from hutch.snapshots.git_storage import Snapshot
from hutch.store.proposed_changes import Changes
from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait
from hutch.workspace.workspace import Workspace

NO_REPOSITORY = "The workspace is not a repository, so there is nowhere to deliver to."
STOPPED = "The run ended before it was done ({outcome}). It is proposed as it is."
UNTESTED = "The tests were not run on this."
KNOWN = "The tests fail. This is known, and the change is proposed anyway."
logger = structlog.get_logger()

Append = Callable[[Sequence[Event]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """The dependencies of a delivery; `app/` builds it."""

    changes: ChangeContext
    scratch: ScratchSandboxes  # for tests on the base
    public_url: str = ""  # of the server


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of one run."""

    context: DeliveryContext
    live: LiveSession
    session: Session
    run: QueuedRun
    ended: RunEnded
    opening: asyncio.Event = field(default_factory=asyncio.Event)  # set once others can see the change

    async def complete(self) -> None:
        """Deliver and record the outcome, the last event about the run. A failure can be retried."""
        entries = effective_entries(await self.live.entries())
        for entry in reversed(entries):
            if isinstance(entry.event, DeliveryRequested) and entry.event.run_id == self.run.id:
                break
            if isinstance(entry.event, DeliveryEnded) and entry.event.run_id == self.run.id:
                if entry.event.outcome == "failed" and not entry.event.cancelled:
                    break
                await self.live.delivered(entry.event, entry.at_ms)  # a killed process may not have noted it
                return
        try:
            ended = await self._finish_visible_steps(entries)
        except asyncio.CancelledError:
            if not self.live.leaves_open:  # the run will not be resumed
                await asyncio.shield(self.live.append([undelivered(entries, self.run.id, CANCELLED)]))
            raise
        except HutchError as error:  # the work remains, and can be delivered later
            reason = self._clean(str(error))
            ended = DeliveryEnded(run_id=self.run.id, outcome="failed", reason=reason, code=error.code)
        except Exception:
            logger.exception("delivery.failed", session_id=self.live.id, run_id=self.run.id)
            ended = DeliveryEnded(run_id=self.run.id, outcome="failed", reason=FAULT)
        await self.live.append([ended])

    async def _finish_visible_steps(self, entries: Sequence[Entry]) -> DeliveryEnded:
        """Deliver. Once the pull request is being opened, ignore cancellation unless the run will be resumed:
        otherwise a visible pull request would not be recorded here."""
        work = asyncio.ensure_future(self._deliver(entries))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if not self.opening.is_set() or self.live.leaves_open:
                    await cancel_and_wait(work)
                    raise
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()

    async def _deliver(self, entries: Sequence[Entry]) -> DeliveryEnded:
        before, workspace = read_run_history(entries, self.run.id), self.live.sandbox.workspace
        if not workspace.record.source or not workspace.record.commit:
            return DeliveryEnded(run_id=self.run.id, outcome="nothing", reason=NO_REPOSITORY)
        about = self._about(entries, before)
        if self.ended.outcome not in DELIVERED:
            note = STOPPED.format(outcome=self.ended.outcome.replace("_", " "))
            about = replace(about, tests_note=note if before.tested else f"{note} {UNTESTED}")
        elif self.ended.outcome == "tests_failing" and run_redelivery.read(entries, self.run.id).failing:
            about = replace(about, tests_note=KNOWN)
        elif self.ended.outcome == "tests_failing" and (
            refusal := (await self.live.suite_options(self.session)).refusal
        ):
            return DeliveryEnded(run_id=self.run.id, outcome="failed", reason=refusal, failing=True)
        elif self.ended.outcome == "tests_failing":
            compared = await compare_with_base(
                partial(self.context.scratch.open, self.session),
                workspace,
                base=before.start,
                now=before.last,
                ran=before.tests,
                command=self.session.delivery.tests,
                policy=self.live.sandbox.jail.policy,
                name=self.run.id[-12:].lower(),
            )
            if compared.is_worse:
                why = before.tests.reason if before.tests else ""
                reason = f"{why or f'The tests fail: {about.tests}.'} {compared.note}".strip()
                reason = self._clean(reason)  # names of tests come from the repository
                return DeliveryEnded(run_id=self.run.id, outcome="failed", reason=reason, failing=True)
            about = replace(about, tests_before=compared.before, tests_note=compared.note)
        start, last = workspace.snapshots.get(before.start), workspace.snapshots.get(before.last)
        search = await self._search_for_secrets(entries, workspace, start, last)
        if search.refused:
            return self._refused(search.refused)
        change = await deliver(
            self.context.changes,
            workspace,
            self._proposal(before, about),
            append=self.live.append,
            start=None if search.start_has_secrets else start,
            last=last,
            known_commits=proposed_in(entries),
            address=self.live.dependencies.address_of(self.session),
            caller=await caller_of(self.live.dependencies, self.session),
            on_step=self._steps(entries),
        )
        if change is None:
            return DeliveryEnded(run_id=self.run.id, outcome="nothing", reason="Nothing was changed.")
        return DeliveryEnded(
            run_id=self.run.id,
            outcome="proposed",
            reason=about.tests_note,
            change_id=change.id,
            url=change.url,
        )

    async def _search_for_secrets(
        self, entries: Sequence[Entry], workspace: Workspace, start: Snapshot, last: Snapshot
    ) -> SecretSearch:
        """Search the work for secrets that were not delivered before. Suspected ones count until a user has
        confirmed them."""
        record = run_redelivery.read(entries, self.run.id)
        is_confirmed = record.failing and record.last is not None and record.last.code == SUSPECTED_SECRET
        return await search_work(
            workspace,
            self.context.changes.redactor,
            delivered=proposed_in(entries),
            start=start,
            last=last,
            only_stored=is_confirmed,
        )

    def _refused(self, found: Sequence[FoundSecret]) -> DeliveryEnded:
        code = STORED_SECRET if found[0].is_stored else SUSPECTED_SECRET
        reason = describe_secrets(found)
        return DeliveryEnded(run_id=self.run.id, outcome="failed", reason=reason, code=code)

    def _clean(self, text: str) -> str:
        return self.live.dependencies.redactor.redact(text)

    def _steps(self, entries: Sequence[Entry]) -> OnStep:
        steps = [each.event for each in entries if isinstance(each.event, StepReached)]
        reached = {(each.step, each.message) for each in steps if each.run_id == self.run.id}

        async def on_step(step: Step, message: str) -> None:
            if step == "opening":
                self.opening.set()
            found = (step, self._clean(message))
            if found not in reached:  # only once, even if the step is repeated after a crash
                reached.add(found)
                await self.live.append([StepReached(step=step, message=found[1], run_id=self.run.id)])

        return on_step

    def _about(self, entries: Sequence[Entry], before: RunHistory) -> About:
        public = self.context.public_url
        return About(
            session_id=self.live.id,
            run_id=self.run.id,
            link=f"{public.rstrip('/')}/sessions/{self.live.id}" if public else "",
            tests=describe_tests(before.tests) if before.tested else "",
            tests_before=describe_tests(ran_before(entries, self.run.id)),
            cost_usd=self.ended.cost_usd,
            turns=self.ended.turns,
            duration_s=self.ended.duration_s,
            issue=self.session.delivery.issue,
        )

    def _proposal(self, before: RunHistory, about: About) -> Proposal:
        options = self.session.delivery
        title, summary = before.title_and_summary
        note = f"\n\n{about.tests_note}" if about.tests_note else ""
        return Proposal(
            session_id=self.live.id,
            run_id=self.run.id,
            title=one_line(options.title or self._clean(one_line(title))),
            own_title=bool(options.title),
            summary=self._clean(strip_controls(summary)) + note,
            tests=about.tests,
            author=options.author or self.context.changes.author,
            draft=options.draft,
            labels=options.labels,
            reviewers=options.reviewers,
            describe=partial(pull_text, about=replace(about, tests_note="")),
        )


async def deliver(
    context: ChangeContext,
    workspace: Workspace,
    proposal: Proposal,
    *,
    append: Append,
    start: Snapshot | None,
    last: Snapshot,
    known_commits: Sequence[str] = (),
    address: str = "",
    caller: ForgeAccess = COMMAND_LINE,
    on_step: OnStep = ignore_step,
) -> Change | None:
    """Put a run's work on a branch of its repository and record that; None if there is nothing to deliver.

    `known_commits` are proposed already according to the log. `address` is the repository as named.
    """
    changes = Changes(context.rows)
    change = await changes.of_run(proposal.run_id)
    if change is None:
        clean = context.redactor.redact  # the result of the tests may quote their output
        describe = proposal.describe
        proposal = replace(proposal, tests=clean(proposal.tests), describe=lambda body: clean(describe(body)))
        source = workspace.record.source or ""
        forge = await context.forges.for_delivery(source, address, caller)
        before = await _find_open_change(changes, proposal.session_id, source, forge)
        if before is not None and before.run_id > proposal.run_id:
            return before  # a later run has delivered this work too
        change = await propose(
            workspace, last, proposal, forge=forge, start=start, before=before, on_step=on_step
        )
        if change is None:
            return None
        await (changes.update(change) if before and before.id == change.id else changes.add(change))
    if change.commit not in known_commits:
        event = ChangeProposed(
            change_id=change.id,
            branch=change.branch,
            base=change.base,
            commit=change.commit,
            title=change.title,
            url=change.url,
        )
        await append([event])
    return change


async def _find_open_change(
    changes: Changes, session_id: str, repository: str, forge: Forge
) -> Change | None:
    """The change of a session that is still open here and at its forge."""
    before = await changes.open_of_session(session_id)
    if before is None or before.repository != repository:
        return None
    state = (await forge.read(before)).state
    if state != "open":
        await changes.end(before, state)
        return None
    return before
