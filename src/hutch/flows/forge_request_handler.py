"""Performs and answers requests from a forge, each exactly once, even after a crash.

A request is stored before the forge gets its response. Its session, or its input to a session, is
written in the same transaction as the note that it has started. The progress comment is found
again by a marker. So after a crash the next server knows how far a request got.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, field, replace
from functools import partial

import structlog

from hutch.domain.errors import Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.domain.ids import SessionId
from hutch.domain.inputs import Prompt
from hutch.domain.log_entry_audience import PUBLIC, filter_entry
from hutch.domain.proposed_change import Change
from hutch.domain.request_from_forge import ForgeRequest, WebhookDelivery
from hutch.domain.session import Delivery, NewSession, QueuedRun, Session
from hutch.domain.user import Caller, User, name_key, scopes_of
from hutch.flows import sessions
from hutch.flows.flow_services import Services
from hutch.flows.forge_prompt_and_progress_comment import Progress, marker, prompt
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.run_facts_from_log import read_run_history
from hutch.flows.task_work.forge_request_tasks import RequestWaits, begin_request
from hutch.forge.github_api_types import Posted
from hutch.forge.github_repository_api import GitHub
from hutch.forge.interface import SETTLE_DELAY_S
from hutch.forge.posted_text_escaping import OWN_MARKER, escape_mentions
from hutch.store.proposed_changes import Changes
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from hutch.store.users import Users
from hutch.store.webhook_inbox import MAX_WAIT_MS, StartedByInput, WebhookInbox
from hutch.system.clock_without_jumps import remaining_s, wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait

MAY = frozenset({"write", "maintain", "admin"})
TRIES = 12
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, MAX_WAIT_MS / 1000
AT_ONCE = 16
logger = structlog.get_logger()

OpenGitHub = Callable[[str, str], GitHub]  # of a repository's address, for a user
Find = Callable[[], Awaitable[Posted | None]]
Post = Callable[[], Awaitable[Posted]]


@dataclass(frozen=True, slots=True)
class TriggerOptions:
    """The options for requests from a forge."""

    run_as: str = ""  # a user's name; empty: an owner
    public_url: str = ""
    poll_s: float = 1.0  # how often a run is polled
    edit_s: float = 10.0  # between two edits of a comment, except for the last
    settle_s: float = SETTLE_DELAY_S
    wait_s: float = 3.0  # before a request that must wait is tried again
    max_busy: int = 2  # agents that work on one repository at the same time


class RequestIgnored(Exception):
    """The request is ignored; the reason is recorded but not posted."""


class NotPossible(Exception):
    """The request cannot be performed; the reason is posted."""


@dataclass(slots=True)
class Triggers:
    """Performs requests in parallel."""

    services: Services
    open_github: OpenGitHub
    options: TriggerOptions = field(default_factory=TriggerOptions)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)

    async def take(self, id: str, digest: str, event: str, request: ForgeRequest) -> bool:
        """Store a request, to be performed at once; False when it is known already."""

        def clean(value: object) -> object:
            return self.services.redactor.redact(value) if isinstance(value, str) else value

        request = replace(request, mark=secrets.token_hex(16))
        delivery = WebhookDelivery(
            id=id,
            digest=digest,
            at_ms=wall_ms(),
            event=event,
            request=json.dumps({name: clean(value) for name, value in asdict(request).items()}),
        )
        is_new = await WebhookInbox(self.services.rows).add(delivery)
        self._wakeup.set()
        return is_new

    async def run(self) -> None:
        """Run until cancelled. The next call resumes the requests in progress."""
        try:
            while True:
                self._wakeup.clear()
                try:
                    await self._start_open_deliveries()
                except HutchError as error:
                    logger.warning("triggers.not_read", problem=str(error))
                # Not wait_for: before Python 3.12 it loses a cancellation that comes with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(FIRST_WAIT_S):
                        await self._wakeup.wait()
        finally:
            await cancel_and_wait(*self._tasks.values())

    async def _start_open_deliveries(self) -> None:
        for delivery in await WebhookInbox(self.services.rows).list_open():
            if len(self._tasks) >= AT_ONCE:
                return
            if delivery.id not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._process(delivery))
                self._tasks[delivery.id] = task
                task.add_done_callback(partial(self._task_ended, delivery.id))

    def _task_ended(self, id: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(id, None)
        if task.cancelled():
            return
        if error := task.exception():  # its result could not even be recorded: no immediate retry
            logger.warning("trigger.not_noted", delivery=id, problem=str(error))
            return
        self._wakeup.set()

    async def _process(self, delivery: WebhookDelivery) -> None:
        """Perform one request, from its current state."""
        notes = WebhookInbox(self.services.rows)
        try:
            now = await notes.get(delivery.id)  # the list may be outdated
            if now is None or now.state not in ("queued", "working"):
                return
            delivery = now
            request = ForgeRequest(**json.loads(delivery.request))
            who = await self._caller()
            forge = self.open_github(request.repository, who.user.id)
            try:
                if delivery.state == "queued":
                    delivery = await self._begin(delivery, request, who, forge)
                await self._follow(delivery, request, forge)
            except NotPossible as why:  # failures to post this are handled below
                await self._comment(
                    forge, request, delivery, 0, f"{why}\n\n{OWN_MARKER}{marker(delivery.id)}"
                )
                await notes.update(delivery.id, state="ended", reason=str(why))
        except RequestIgnored as why:
            await notes.update(delivery.id, state="ignored", reason=str(why))
        except RequestWaits as why:
            next_ms = wall_ms() + int(self.options.wait_s * 1000)
            await notes.update(delivery.id, next_ms=next_ms, reason=str(why))
        except Unavailable as error:  # the forge is down: later
            attempts = delivery.attempts + 1
            wait_s = min(FIRST_WAIT_S * 2**attempts, LONGEST_WAIT_S)
            over = {"state": "ended"} if attempts >= TRIES else {}
            wait_s = max(wait_s, self.options.settle_s if delivery.state == "working" else 0.0)
            next_ms = wall_ms() + int(wait_s * 1000)
            reason = self.services.redactor.redact(str(error))
            await notes.update(delivery.id, attempts=attempts, next_ms=next_ms, reason=reason, **over)
            if delivery.state == "working":
                await asyncio.sleep(wait_s)
        except HutchError as error:
            logger.info("trigger.ended", delivery=delivery.id, problem=str(error))
            await notes.update(delivery.id, state="ended", reason=self.services.redactor.redact(str(error)))
        except Exception:
            logger.exception("trigger.failed", delivery=delivery.id)
            await notes.update(delivery.id, state="ended", reason="Hutch itself failed.")

    async def _caller(self) -> Caller:
        """The user on whose behalf requests are performed."""
        users: list[User] = [user for user in await Users(self.services.rows).list() if not user.disabled]
        name = name_key(self.options.run_as)
        found = [user for user in users if (name_key(user.name) == name if name else user.role == "owner")]
        if not found:
            raise Conflict(f"There is no user {self.options.run_as!r} to work for GitHub. Set github.run_as.")
        user = min(found, key=lambda each: each.id)  # the oldest user
        return Caller(user, scopes_of(user.role), "local", "github")

    async def _begin(
        self, delivery: WebhookDelivery, request: ForgeRequest, who: Caller, forge: GitHub
    ) -> WebhookDelivery:
        """Check the permission and pass the request to a session, in one transaction with that note."""
        change = await self._change(request)
        if not request.mentioned and request.kind != "issue" and change is None:
            raise RequestIgnored("Hutch was not mentioned, and it is not a pull request of Hutch.")
        allowed = await forge.permission(request.by)
        if allowed not in MAY:
            raise RequestIgnored(
                f"{request.by} has the permission {allowed!r} there, but needs write access."
            )
        trusted = request.author == request.by or (
            bool(request.author) and await forge.permission(request.author) in MAY
        )
        text = prompt(request, trusted_author=trusted)
        if change is not None and (going := await self._go_on(delivery, who, change, text)):
            return going
        revision = ""
        if request.on_pull:
            pull = await forge.pull(request.number)
            if pull.state != "open":
                raise NotPossible("The pull request is not open.")
            if pull.head_owner.lower() != request.repository.split("/")[-2].lower():
                raise NotPossible("The branch of the pull request is in a fork, where Hutch cannot push.")
            revision = pull.branch
        new = NewSession(
            purpose=f"{self.services.redactor.redact(request.title)[:150]} (#{request.number})",
            repository=request.repository,
            revision=revision,
            deliver=True,
            delivery=Delivery(
                issue="" if request.on_pull else _issue_url(request), branch=revision, titled=True
            ),
            prompt=text,
        )
        begun = await begin_request(
            self.services, who, request, new, delivery_id=delivery.id, max_busy=self.options.max_busy
        )
        return replace(delivery, state="working", session_id=begun.session_id, input=begun.input)

    async def _change(self, request: ForgeRequest) -> Change | None:
        """The open change of Hutch behind a pull request."""
        if not request.on_pull:
            return None
        found = await Changes(self.services.rows).pull(request.repository, request.number)
        return found if found is not None and found.state == "open" else None

    async def _go_on(
        self, delivery: WebhookDelivery, who: Caller, change: Change, text: str
    ) -> WebhookDelivery | None:
        """Pass the request to the session of the change; None when that has ended or is another user's."""
        asked = Prompt(text=text[:200_000])
        try:
            given = await sessions.give(
                self.services, who, change.session_id, asked, also=StartedByInput(delivery.id)
            )
        except (NotFound, Conflict, Denied):
            return None
        return replace(delivery, state="working", session_id=change.session_id, input=given.seq)

    # --- progress ---

    async def _follow(self, delivery: WebhookDelivery, request: ForgeRequest, forge: GitHub) -> None:
        """Update one comment until the run has ended, then answer."""
        notes, log = WebhookInbox(self.services.rows), self.services.log
        session = await Sessions(self.services.rows).get(delivery.session_id)
        link = (
            f"{self.options.public_url.rstrip('/')}/sessions/{session.id}" if self.options.public_url else ""
        )
        progress, seen, shown, edited = Progress(""), 0, "", float("-inf")
        comment_id = delivery.comment_id
        while True:
            run = await self._run_of(delivery)
            if run is not None and not progress.run_id:
                progress.run_id, delivery = run.id, replace(delivery, run_id=run.id)
                await notes.update(delivery.id, run_id=run.id)
            session = await Sessions(self.services.rows).get(delivery.session_id)
            over = session.state == "ended" if run is None else run.state == "ended"
            if run is not None:
                while entries := await log.read(SessionId(session.id), after=seen):
                    progress.apply(filter_entry(entry, PUBLIC).event for entry in entries)
                    seen = entries[-1].seq
                places = await Runs(self.services.rows).queue_positions([run.id])
                progress.queue_position = places.get(run.id)
            summary = await self._final_summary(session, progress) if over else ""
            text = progress.text(id=delivery.id, by=request.by, link=link, summary=summary)
            if text != shown and (over or time.monotonic() - edited >= self.options.edit_s):
                comment_id = await self._comment(forge, request, delivery, comment_id, text)
                shown, edited = text, time.monotonic()
            if over:
                break
            await asyncio.sleep(self.options.poll_s)
        if request.comment_id:
            mark = f"<!-- hutch-answer {request.mark or delivery.id} -->"
            answer = f"{shown.partition(OWN_MARKER)[0]}{OWN_MARKER}{mark}"
            await self._once(
                delivery,
                lambda: forge.find(request.number, mark, among="lines"),
                lambda: forge.reply(request.number, request.comment_id, answer),
            )
        await notes.update(delivery.id, state="ended", reason="")

    async def _comment(
        self, forge: GitHub, request: ForgeRequest, delivery: WebhookDelivery, comment_id: int, text: str
    ) -> int:
        """Create or update the comment. A comment whose id was not recorded is searched for."""
        if comment_id:
            posted = await forge.comment(request.number, text, id=comment_id)
        else:
            posted, is_new = await self._once(
                delivery,
                lambda: forge.find(request.number, marker(delivery.id)),
                lambda: forge.comment(request.number, text),
            )
            if not is_new:
                posted = await forge.comment(request.number, text, id=posted.id)
        if posted.id != comment_id:
            await WebhookInbox(self.services.rows).update(delivery.id, comment_id=posted.id)
        return posted.id

    async def _once(self, delivery: WebhookDelivery, find: Find, post: Post) -> tuple[Posted, bool]:
        """Post a text unless it is posted already. Returns it, and whether it is new.

        A post by a killed process, or one whose response got lost, may appear a little later. So before each
        post the latest time for that is recorded, and the search waits until then.
        """
        notes = WebhookInbox(self.services.rows)
        noted = await notes.get(delivery.id)
        if noted is not None:
            settle_s = self.options.settle_s
            await asyncio.sleep(remaining_s(noted.next_ms - int(settle_s * 1000), settle_s, wall_ms()))
        if found := await find():
            return found, False
        await notes.update(delivery.id, next_ms=wall_ms() + int(self.options.settle_s * 1000))
        posted = await post()
        await notes.update(delivery.id, next_ms=0)
        return posted, True

    async def _run_of(self, delivery: WebhookDelivery) -> QueuedRun | None:
        if delivery.run_id:
            return await Runs(self.services.rows).get(delivery.run_id)
        found = await Runs(self.services.rows).page(session_ids=[delivery.session_id], limit=200)
        return next((run for run in reversed(found) if run.input == delivery.input), None)

    async def _final_summary(self, session: Session, progress: Progress) -> str:
        """The agent's final title and summary, for users."""
        if not progress.run_id:
            return "The session ended before this request was started."
        if not progress.started or progress.no_model:
            return ""
        title, summary = read_run_history(
            await read_log(self.services.log, SessionId(session.id)), progress.run_id
        ).title_and_summary
        clean = self.services.redactor.redact
        return f"{clean(title)}\n\n{clean(escape_mentions(summary))[:4000]}"


def _issue_url(request: ForgeRequest) -> str:
    return request.url.partition("#")[0]
