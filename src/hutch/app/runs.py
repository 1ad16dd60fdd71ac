"""A run of the agent in this process: everything it needs is opened here, and closed when it is over."""

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from hutch.agent.approval import Answer, Approvals, Asker
from hutch.agent.asking import OnDelta
from hutch.agent.limits import NOTHING_SAID, RunLimits
from hutch.agent.persona import DEFAULT, ReadFile, load_persona
from hutch.agent.policy import Rule
from hutch.agent.tools.all import NAMES, TOOLS
from hutch.agent.tools.seam import Ask, Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.app import changes, forges, models, records, workspaces
from hutch.app.approvals import kept_approvals
from hutch.app.baseline import tests_on_the_base
from hutch.app.changes import AUTHOR, repository_jail
from hutch.app.deliverable import must_be_deliverable
from hutch.app.desks import Desk, open_desk
from hutch.app.left_out import left_out
from hutch.domain import events
from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.events import Entry, RunEnded, RunStarted, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_run_id, new_session_id
from hutch.flows import delivery, review
from hutch.flows.code_change import Bench, OnEvent, Worked, begin, go_on
from hutch.flows.commit_text import one_line, plain
from hutch.flows.past import proposed_in, start_of
from hutch.flows.pull_text import About, pull_text
from hutch.flows.runs import find_run, read_log
from hutch.flows.terms import Terms
from hutch.llm import seam as llm
from hutch.llm.price import is_priced, parse_prices, unpriced
from hutch.settings import Loaded
from hutch.snapshots.layout import Leaf
from hutch.store.seam import EventLog

__all__ = [
    "AUTHOR",
    "FINAL",
    "NOTHING_SAID",
    "Answer",
    "ApprovalRules",
    "Change",
    "Job",
    "Opened",
    "Resume",
    "RunLimits",
    "Terms",
    "Worked",
    "changes",
    "events",
    "find_run",
    "is_done",
    "llm",
    "make_bench",
    "must_go_on",
    "open_run",
    "repository_jail",
    "review",
    "started",
    "unpriced",
]

ApprovalRules = tuple[Rule, ...]
Resume = tuple[SessionId, Sequence[Entry]]
FINAL = ("done", "tests_failing")
LOOK_S = 0.5  # that a run waits to be told what was left out; else it is told at its end
MOST_PIECES = 16  # of a file of the repository that Hutch itself reads


@dataclass(frozen=True, slots=True)
class Job:
    """What is wanted of a run."""

    prompt: str
    repository: str
    revision: str | None = None
    uncommitted: bool = False
    persona: str | None = None
    model: str | None = None
    terms: Terms = field(default_factory=Terms)
    workspace_id: str | None = None  # for the new workspace; made up when not given
    plain: bool = False  # the repository may be a directory without git
    watched: bool = False  # by somebody who wants to know what was changed and not committed


@dataclass(slots=True)
class Opened:
    """A run that is ready to begin, or to go on."""

    loaded: Loaded
    log: records.OwnLog
    bench: Bench
    run_id: str
    choice: models.Choice
    workspace: workspaces.Workspace
    entries: Sequence[Entry] = ()
    address: str = ""  # of the repository as it was named, with credentials if it had some
    warnings: list[str] = field(default_factory=list)
    held_back: str = ""  # why work whose tests fail was not delivered
    tests_note: str = ""  # why it was, all the same
    lost: str = ""  # why work that could be delivered was not
    notes: list[str] = field(default_factory=list)  # what else is to be known
    looking: "asyncio.Task[str] | None" = None  # for what was changed and not committed

    def untold(self) -> list[str]:
        """What is to be known and was not told yet."""
        if self.looking is not None and self.looking.done() and not self.looking.cancelled():
            self.notes += filter(None, [self.looking.result()])
            self.looking = None
        told, self.notes = self.notes, []
        return told

    @property
    def can_deliver(self) -> bool:
        """Whether there is a repository that a change could go to."""
        return bool(self.workspace.record.commit and self.workspace.record.source)

    async def work(self, prompt: str) -> Worked:
        """Do it, or the rest of it."""
        if self.entries:
            worked = await go_on(self.bench, self.run_id, self.entries)
        else:
            worked = await begin(self.bench, self.run_id, prompt)
        clean = self.bench.redactor.clean  # last: without control characters a secret may be whole again
        return replace(worked, title=clean(one_line(worked.title)), summary=clean(plain(worked.summary)))

    async def deliver(self, worked: Worked) -> Change | None:
        """Put what was done on a branch of the repository, once, and remember it; None if it is nothing.

        Nor is work delivered whose tests fail, unless they did before: `held_back` says why.
        """
        first = start_of(self.entries) or worked.first.id
        about = self._about(worked)
        if worked.ended.outcome == "tests_failing":
            compared = await tests_on_the_base(
                self.loaded,
                self.workspace,
                base=first,
                now=worked.last.id,
                ran=self.bench.tests,
                network=self.bench.terms.network,
                name=self.run_id[-12:].lower(),
            )
            if compared.new:
                self.held_back = self.bench.redactor.clean(compared.told)  # names of tests are not ours
                return None
            self.tests_note = compared.told
            worked = replace(worked, summary=f"{worked.summary}\n\n{compared.told}".strip())
            about = replace(about, tests_before=compared.before)
        proposal = delivery.Proposal(
            session_id=self.bench.session_id,
            run_id=self.run_id,
            title=worked.title,
            summary=worked.summary,
            tests=changes.told_tests(self.bench.tests),
            author=self.bench.terms.author or AUTHOR,
            describe=partial(pull_text, about=about),
        )
        return await changes.deliver(
            self.loaded,
            self.log,
            self.workspace,
            proposal,
            append=self.bench.append,
            start=self.workspace.snapshots.get(first),
            last=worked.last,
            told=proposed_in(self.entries),
            address=self.address,
        )

    def _about(self, worked: Worked) -> About:
        return About(
            session_id=self.bench.session_id,
            run_id=self.run_id,
            tests=changes.told_tests(self.bench.tests),
            cost_usd=worked.ended.cost_usd,
            turns=worked.ended.turns,
            duration_s=worked.ended.duration_s,
        )

    async def finish(self, worked: Worked, *, delivered: bool = False) -> None:
        """End the session of a run that is over; one that was stopped can still go on, and work whose tests
        fail, or that was not delivered, can still be proposed."""
        failing = worked.ended.outcome == "tests_failing" and worked.changed and self.can_deliver
        undecided = bool(self.lost) or (failing and not delivered)
        if worked.ended.outcome in FINAL and not undecided:
            await self.bench.append([SessionEnded(outcome="done", reason=worked.ended.reason)])


@asynccontextmanager
async def open_run(
    loaded: Loaded,
    job: Job,
    *,
    resume: Resume | None = None,
    on_delta: OnDelta = lambda delta: None,
    on_event: OnEvent = lambda event: None,
    on_progress: workspaces.OnProgress | None = None,
    approve: Asker | None = None,
    ask: Ask | None = None,
) -> AsyncIterator[Opened]:
    """Open all that a run needs: the log, the workspace, the jail, the model."""
    async with AsyncExitStack() as stack:
        wanted = await _model_name(loaded, job)
        record = Path(job.terms.record) if job.terms.record else None
        # The HTTP client takes a moment to load: meanwhile the rest is made ready.
        choosing = asyncio.ensure_future(models.choose_model(loaded, wanted, record=record))
        stack.callback(choosing.cancel)
        looking = asyncio.ensure_future(_left_out(loaded, job, resume))
        stack.callback(looking.cancel)
        log_bytes = loaded.settings.sessions.log_bytes
        log = await stack.enter_async_context(records.event_log(loaded.paths, log_bytes=log_bytes))
        session_id, entries = resume or (new_session_id(), ())
        before = started(entries) if entries else None
        workspace_id = before.workspace if before else await _prepared(loaded, job, on_progress)
        desk = await stack.enter_async_context(open_desk(loaded, workspace_id, network=job.terms.network))
        if resume:  # while somebody else held the workspace, they may have gone on with it
            entries = await read_log(log, session_id)
            must_go_on(entries)
        no_pull = ""
        if job.terms.deliver:
            no_pull = await must_be_deliverable(loaded, desk.workspace, address=job.repository)
        model, choice = await choosing
        stack.push_async_callback(model.close)
        bench = make_bench(
            loaded,
            desk,
            session_id,
            log,
            model,
            persona=job.persona,
            limits=job.terms.limits,
            entries=entries,
        )
        bench.terms = job.terms
        desk.shells.admit = desk.told.write = bench.record
        await _with_kept(loaded, bench)
        bench.on_delta, bench.on_event = on_delta, on_event
        bench.approvals.ask, bench.context.ask = approve, ask
        if not entries:
            await bench.append([SessionOpened(purpose=bench.redactor.clean(job.prompt)[:200])])
        run_id = before.run_id if before else new_run_id()
        opened = Opened(loaded, log, bench, run_id, choice, desk.workspace, entries, job.repository)
        opened.notes, opened.looking = ([no_pull] if no_pull else []), looking
        said = bench.persona.limits.tightened(bench.persona.repository_limits).cost_usd
        if said is not None and not await asyncio.to_thread(is_priced, model.name, bench.prices):
            opened.warnings.append(unpriced(model.name))
        await asyncio.wait([looking], timeout=LOOK_S)
        yield opened


async def _model_name(loaded: Loaded, job: Job) -> str | None:
    """The model that is wanted. A slip in its name, or its price, shall not wait for a workspace."""
    wanted = job.model or loaded.settings.model
    if wanted is not None:
        models.parse_model_name(wanted)
    if wanted is not None and job.terms.limits.cost_usd is not None:
        prices = parse_prices(loaded.settings.models.prices)
        if not await asyncio.to_thread(is_priced, wanted, prices):
            raise BadRequest(unpriced(wanted))
    return wanted


async def _prepared(loaded: Loaded, job: Job, on_progress: workspaces.OnProgress | None) -> str:
    """The id of a new workspace."""
    prepared = await workspaces.prepare_workspace(
        loaded,
        await forges.reachable(loaded, job.repository, guarded=False),
        id=job.workspace_id,
        revision=job.revision,
        uncommitted=job.uncommitted,
        plain=job.plain,
        on_progress=on_progress,
    )
    return prepared.id


async def _left_out(loaded: Loaded, job: Job, resume: Resume | None) -> str:
    """What was changed and not committed where a run begins with what is checked out, and leaves that out."""
    if resume or not job.watched or job.uncommitted or job.revision:
        return ""
    return await left_out(loaded, job.repository)


async def _with_kept(loaded: Loaded, bench: Bench) -> None:
    """What the user has allowed always holds; what they allow always is kept."""
    kept = kept_approvals(loaded.paths)
    bench.approvals.policy = bench.approvals.policy.granted(await asyncio.to_thread(kept.rules))
    bench.approvals.keep = kept.keep


def make_bench(
    loaded: Loaded,
    desk: Desk,
    session_id: SessionId,
    log: EventLog,
    model: llm.Model,
    *,
    persona: str | None,
    limits: RunLimits,
    entries: Sequence[Entry] = (),
) -> Bench:
    """A persona at a desk, with a model that thinks for it.

    What the repository says of the persona is what it said when the session of these entries began: an
    agent that writes into that file changes nothing for itself.
    """
    redactor = models.redactor(loaded)
    own = Path(loaded.paths.config_file).parent / "personas"
    folder = own if own.is_dir() else None
    who = load_persona(
        persona or loaded.settings.persona,
        known_tools=NAMES,
        folder=folder,
        read=_reader(desk.workspace, entries),
    )
    if persona is None and loaded.is_from_repository("persona"):
        who = who.narrowed_to(load_persona(DEFAULT, known_tools=NAMES, folder=folder))
    tools = Toolbox(TOOLS, clean=redactor.clean, settle=redactor.settled, mask=redactor.mask)
    return Bench(
        session_id=session_id,
        log=log,
        model=model,
        persona=who,
        toolbox=tools.only(who.tools),
        context=Context(
            desk.workspace,
            desk.jail,
            desk.shells,
            ignore=loaded.settings.ignore,
            test_command=loaded.settings.tests.command,
            test_timeout_s=loaded.settings.tests.timeout_s,
            clean=redactor.clean,
        ),
        redactor=redactor,
        limits=who.limits_for(limits),
        approvals=Approvals(who.policy),
        told=desk.told,
        terms=Terms(limits=limits),
        prices=parse_prices(loaded.settings.models.prices),
    )


def started(entries: Sequence[Entry]) -> RunStarted:
    """What a log says that was asked for."""
    return [each.event for each in entries if isinstance(each.event, RunStarted)][-1]


def is_done(entries: Sequence[Entry]) -> RunEnded | None:
    """How a run ended, if it ended for good: what it did is delivered, or is not to be."""
    ended = [each.event for each in entries if isinstance(each.event, RunEnded)]
    over = any(isinstance(each.event, SessionEnded) for each in entries)
    return ended[-1] if ended and over and ended[-1].outcome in FINAL else None


def must_go_on(entries: Sequence[Entry]) -> None:
    """Refuse to go on with a run that is done."""
    if ended := is_done(entries):
        raise BadRequest(
            f"The run {started(entries).run_id} is done ({ended.outcome}). Start another with hutch run."
        )


def _reader(workspace: workspaces.Workspace, entries: Sequence[Entry]) -> ReadFile:
    start = start_of(entries)
    if start is None:
        return lambda path: _small(workspace, path)
    workspace.pin(workspace.snapshots.get(start).id)
    return lambda path: _as_it_was(workspace, start, path)


def _as_it_was(workspace: workspaces.Workspace, number: int, path: str) -> bytes | None:
    try:
        item = workspace.snapshots.item(number, path)
        if not isinstance(item, Leaf) or not stat.S_ISREG(item.mode):
            return None
        return b"".join(islice(workspace.snapshots.read(number, path), MOST_PIECES))
    except (NotFound, BadRequest):
        return None


def _small(workspace: workspaces.Workspace, path: str) -> bytes | None:
    try:
        return workspace.files.read_bytes(path)[0]
    except (BadRequest, Denied):  # there is none, or none that can be read
        return None
