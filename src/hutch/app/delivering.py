"""How what a run of a session did is handed over: once, step by step, and told in the log."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import structlog

from hutch.app import changes, forges
from hutch.app.baseline import tests_on_the_base
from hutch.app.session_network import session_network
from hutch.domain.errors import HutchError
from hutch.domain.events import DeliveryAsked, DeliveryEnded, Entry, RunEnded, StepReached
from hutch.domain.session import QueuedRun, Session
from hutch.flows import delivery, handing_over
from hutch.flows.commit_text import one_line, plain
from hutch.flows.past import Past, past, proposed_in
from hutch.flows.pull_text import About, pull_text, ran_before
from hutch.sessions.giving_up import CANCELLED, DELIVERED, undelivered
from hutch.sessions.live import Live
from hutch.sessions.rewind import still_told
from hutch.sessions.worker import FAULT
from hutch.settings import Loaded

NO_REPOSITORY = "What was worked on is no repository, so there is nowhere to deliver to."
STOPPED = "The run ended before it was done ({outcome}). It is proposed as it is."
UNTESTED = "The tests were not run on this."
KNOWN = "The tests fail. This is known, and it is proposed all the same."
logger = structlog.get_logger()
Step = Literal["branching", "committing", "pushing", "opening"]


@dataclass(frozen=True, slots=True)
class Delivering:
    """One run's work, on its way."""

    loaded: Loaded
    live: Live
    session: Session
    run: QueuedRun
    ended: RunEnded
    opening: asyncio.Event = field(default_factory=asyncio.Event)  # others come to see it

    async def go(self) -> None:
        """Hand it over; whatever comes of it is the last word on the run. What failed can be done again."""
        entries = still_told(await self.live.entries())
        for entry in reversed(entries):
            if isinstance(entry.event, DeliveryAsked) and entry.event.run_id == self.run.id:
                break
            if isinstance(entry.event, DeliveryEnded) and entry.event.run_id == self.run.id:
                if entry.event.outcome == "failed" and not entry.event.cancelled:
                    break
                await self.live.delivered(entry.event, entry.at_ms)  # who was killed may not have noted it
                return
        clean = self.live.grounds.redactor.clean
        try:
            ended = await self._seen_through(entries)
        except asyncio.CancelledError:
            if not self.live.leaves_open:  # nobody takes it up again
                await asyncio.shield(self._tell(undelivered(entries, self.run.id, CANCELLED)))
            raise
        except HutchError as error:  # the work is kept, and can be delivered later
            reason = clean(str(error))
            ended = DeliveryEnded(run_id=self.run.id, outcome="failed", reason=reason, code=error.code)
        except Exception:
            logger.exception("delivery.failed", session_id=self.live.id, run_id=self.run.id)
            ended = DeliveryEnded(run_id=self.run.id, outcome="failed", reason=FAULT)
        await self._tell(ended)

    async def _seen_through(self, entries: Sequence[Entry]) -> DeliveryEnded:
        """Deliver it. Once it is being opened nobody stops that, but who will take it up again: what others
        can see must be known here, too."""
        work = asyncio.ensure_future(self._delivered(entries))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if not self.opening.is_set() or self.live.leaves_open:
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    raise
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()

    async def _tell(self, ended: DeliveryEnded) -> None:
        await self.live.append([ended])

    async def _delivered(self, entries: Sequence[Entry]) -> DeliveryEnded:
        before, workspace = past(entries, self.run.id), self.live.desk.workspace
        if not workspace.record.source or not workspace.record.commit:
            return DeliveryEnded(run_id=self.run.id, outcome="nothing", reason=NO_REPOSITORY)
        about = self._about(entries, before)
        if self.ended.outcome not in DELIVERED:
            note = STOPPED.format(outcome=self.ended.outcome.replace("_", " "))
            about = replace(about, tests_note=note if before.tested else f"{note} {UNTESTED}")
        elif self.ended.outcome == "tests_failing" and self._is_known(entries):
            about = replace(about, tests_note=KNOWN)
        elif self.ended.outcome == "tests_failing":
            compared = await tests_on_the_base(
                self.loaded,
                workspace,
                base=before.start,
                now=before.last,
                ran=before.tests,
                command=self.session.delivery.tests,
                network=await session_network(self.loaded, self.live.grounds.rows, self.session),
                name=self.run.id[-12:].lower(),
            )
            if compared.new:
                why = before.tests.reason if before.tests else ""
                reason = f"{why or f'The tests fail: {about.tests}.'} {compared.told}".strip()
                reason = self.live.grounds.redactor.clean(reason)  # names of tests are the repository's
                return DeliveryEnded(run_id=self.run.id, outcome="failed", reason=reason, failing=True)
            about = replace(about, tests_before=compared.before, tests_note=compared.told)
        change = await changes.deliver(
            self.loaded,
            self.live.grounds.rows,
            workspace,
            self._proposal(before, about),
            append=self.live.append,
            start=workspace.snapshots.get(before.start),
            last=workspace.snapshots.get(before.last),
            told=proposed_in(entries),
            address=self.live.grounds.address_of(self.session),
            user=self.session.owner if self.live.grounds.guarded else "",
            guarded=self.live.grounds.guarded,
            account=await forges.may_use_account(self.live.grounds.rows, self.session.owner),
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

    def _is_known(self, entries: Sequence[Entry]) -> bool:
        """Whether somebody has said that the tests may fail."""
        return handing_over.read(entries, self.run.id).failing

    def _steps(self, entries: Sequence[Entry]) -> delivery.OnStep:
        steps = [each.event for each in entries if isinstance(each.event, StepReached)]
        reached = {(each.step, each.message) for each in steps if each.run_id == self.run.id}
        clean = self.live.grounds.redactor.clean

        async def on_step(step: Step, message: str) -> None:
            if step == "opening":
                self.opening.set()
            told = (step, clean(message))
            if told not in reached:  # once, also when it is done again after a crash
                reached.add(told)
                await self.live.append([StepReached(step=step, message=told[1], run_id=self.run.id)])

        return on_step

    def _about(self, entries: Sequence[Entry], before: Past) -> About:
        public = self.loaded.settings.server.public_url
        return About(
            session_id=self.live.id,
            run_id=self.run.id,
            link=f"{public.rstrip('/')}/sessions/{self.live.id}" if public else "",
            tests=changes.told_tests(before.tests) if before.tested else "",
            tests_before=changes.told_tests(ran_before(entries, self.run.id)),
            cost_usd=self.ended.cost_usd,
            turns=self.ended.turns,
            duration_s=self.ended.duration_s,
            issue=self.session.delivery.issue,
        )

    def _proposal(self, before: Past, about: About) -> delivery.Proposal:
        wanted, clean = self.session.delivery, self.live.grounds.redactor.clean
        title, summary = before.said
        note = f"\n\n{about.tests_note}" if about.tests_note else ""
        return delivery.Proposal(
            session_id=self.live.id,
            run_id=self.run.id,
            title=one_line(wanted.title or clean(one_line(title))),
            own_title=bool(wanted.title),
            summary=clean(plain(summary)) + note,
            tests=about.tests,
            author=wanted.author or self.loaded.settings.delivery.author or changes.AUTHOR,
            draft=wanted.draft,
            labels=wanted.labels,
            reviewers=wanted.reviewers,
            describe=partial(pull_text, about=replace(about, tests_note="")),
        )
