"""A prompt becomes a tested change: the agent works in the workspace, the tests have the last word.

The story is the same for a first go and for one that goes on after a crash or an
interruption: the log tells how far it got, and everything is made from the log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hutch.agent.approval import Approvals
from hutch.agent.asking import OnDelta
from hutch.agent.context import repository_notes, system_prompt
from hutch.agent.conversation import Conversation
from hutch.agent.limits import RunLimits, Spent, spent_before
from hutch.agent.loop import Heard, Run
from hutch.agent.persona import Persona
from hutch.agent.plain import written
from hutch.agent.testing.report import NOT_THERE, Report
from hutch.agent.tools.run_tests import find_runner
from hutch.agent.tools.run_tests import run as run_tests
from hutch.agent.tools.seam import Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.domain.errors import NotFound
from hutch.domain.events import (
    Entry,
    Event,
    MessageSent,
    RanTests,
    RunEnded,
    RunStarted,
    SnapshotTaken,
    StepReached,
)
from hutch.domain.ids import SessionId
from hutch.domain.redaction import Redactor
from hutch.domain.title import first_line
from hutch.flows.past import BEFORE, past
from hutch.flows.structure import describe_structure
from hutch.flows.terms import Terms
from hutch.llm.price import Prices
from hutch.llm.seam import Model
from hutch.snapshots.storage import Snapshot
from hutch.store.seam import EventLog
from hutch.system.thread import complete

OnEvent = Callable[[Event], None]
REOPENED = "The shell is a new one, and no command of before runs in the background."


@dataclass(slots=True)
class Bench:
    """All that a run works with; whoever opens these closes them."""

    session_id: SessionId
    log: EventLog
    model: Model
    persona: Persona
    toolbox: Toolbox
    context: Context
    redactor: Redactor
    limits: RunLimits
    approvals: Approvals
    on_delta: OnDelta = lambda delta: None
    on_event: OnEvent = lambda event: None
    tests: RanTests | None = None  # the last run of them
    told: list[Event] = field(default_factory=list)  # what the jail tells, for the log
    inbox: list[Heard] = field(default_factory=list)  # what people say meanwhile
    leaves_open: Callable[[], bool] = lambda: False  # whether a run that is cancelled now goes on later
    terms: Terms = field(default_factory=Terms)
    last_seq: int = 0  # of what this run has written
    prices: Prices = field(default_factory=dict)  # of the user's own
    notes: str | None = None  # in place of what the repository tells agents
    counts_waiting: bool = False  # whether time spent waiting for a person counts towards the timeout

    async def record(self) -> None:
        """Write what the jail has reported."""
        told, self.told[:] = [written(event, self.redactor.clean) for event in self.told], []
        if told:
            await self.append(told)

    async def append(self, events: Sequence[Event]) -> int:
        """Write events, then tell them; the number of the last one.

        A run that is cancelled meanwhile waits for that: else nobody would know that they are in the log.
        """
        return await complete(self._append(events))

    async def _append(self, events: Sequence[Event]) -> int:
        head = await self.log.append(self.session_id, events)
        self.last_seq = head.seq
        for event in events:
            if isinstance(event, RanTests):
                self.tests = event
            self.on_event(event)
        return head.seq


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of a run."""

    ended: RunEnded
    title: str
    summary: str
    first: Snapshot  # before it began
    last: Snapshot
    tests: Report | None = None  # the last word on it, when something was changed and there are tests

    @property
    def changed(self) -> bool:
        return self.first.tree != self.last.tree


async def begin(
    bench: Bench, run_id: str, prompt: str, entries: Sequence[Entry] = (), *, reopened: bool = False
) -> Worked:
    """Take up a prompt, after whatever the session's log holds already.

    `reopened` says that the shells are not those of the runs before.
    """
    conversation = Conversation.of(entries)
    notes = _notes(entries) if bench.notes is None else bench.notes
    if notes is None:
        notes = await repository_notes(bench.context.workspace, bench.redactor.clean)
    first = await bench.context.workspace.snapshot(BEFORE)
    looked = await _looked(bench, run_id, first) if not conversation.messages else []
    started = RunStarted(
        run_id=run_id,
        prompt=bench.redactor.clean(prompt),
        persona=bench.persona.name,
        model=bench.model.name,
        workspace=bench.context.workspace.record.id,
        notes=notes,
        **bench.terms.fields(),
    )
    bench.context.workspace.pin(first.id)
    taken = SnapshotTaken(snapshot=first.id, tree=first.tree, reason=first.reason)
    bench.tests = None
    note = MessageSent(author="hutch", text=REOPENED)
    told = [note] if reopened and conversation.messages else []
    # What an earlier run left open is closed with the same stroke: no result can come after the prompt.
    events = [*conversation.left_open(), taken, *looked, started, *told]
    last_seq = await bench.append(events)
    for seq, event in enumerate(events, start=last_seq - len(events) + 1):
        conversation.apply(event, seq)
    return await _work(bench, started, conversation, Spent(), first, resumed=False)


async def go_on(bench: Bench, run_id: str, entries: Sequence[Entry]) -> Worked:
    """Take a run up again where its log ends. One that was done stays as it is, to be delivered."""
    before = past(entries, run_id)
    snapshots = bench.context.workspace.snapshots
    first = snapshots.get(before.first)
    bench.context.workspace.pin(first.id)
    if before.ended and before.ended.outcome == "done":
        bench.tests = before.tests
        return Worked(before.ended, *before.said, first, snapshots.get(before.last))
    spent = spent_before(entries)
    return await _work(bench, before.started, before.conversation, spent, first, resumed=True)


async def _looked(bench: Bench, run_id: str, first: Snapshot) -> list[Event]:
    """What the repository consists of, for whoever follows the first run in it."""
    if not first.files:
        return []
    message = bench.redactor.clean(await describe_structure(bench.context, first))
    return [StepReached(step="looking", message=message, run_id=run_id)]


def _notes(entries: Sequence[Entry]) -> str | None:
    """What the repository said to agents when the session began, if a run was told."""
    told = (entry.event.notes for entry in entries if isinstance(entry.event, RunStarted))
    return next(told, None)


async def _work(
    bench: Bench,
    started: RunStarted,
    conversation: Conversation,
    spent: Spent,
    first: Snapshot,
    *,
    resumed: bool,
) -> Worked:
    context, run_id = bench.context, started.run_id
    notes = started.notes
    if notes is None:  # a run of an older Hutch
        notes = await repository_notes(context.workspace, bench.redactor.clean)
    system = system_prompt(
        bench.persona,
        context.workspace,
        jail_path=context.jail.workspace,
        network=context.jail.policy.network,
        notes=notes,
    )
    run = Run(
        run_id=run_id,
        model=bench.model,
        toolbox=bench.toolbox,
        context=context,
        system=bench.redactor.clean(system),
        limits=bench.limits,
        approvals=bench.approvals,
        append=bench.append,
        redactor=bench.redactor,
        on_delta=bench.on_delta,
        conversation=conversation,
        spent=spent,
        told=bench.told,
        inbox=bench.inbox,
        leaves_open=bench.leaves_open,
        verify=lambda: _verified(bench, run_id, first),
        snapshot=first.id,
        resumed=resumed,
        prices=bench.prices,
        counts_waiting=bench.counts_waiting,
        limit_set_by=lambda name: bench.persona.sets_limit(name, getattr(bench.limits, name)),
    )
    ended = await run.go()
    last = run.last if run.last is not None else await context.workspace.snapshot("after the run")
    if last.id != run.using.snapshot:
        await bench.append([SnapshotTaken(snapshot=last.id, tree=last.tree, reason=last.reason)])
    conclusion = run.using.conclusion
    data = conclusion.data if conclusion else {}
    text = conclusion.text if conclusion and not data else str(data.get("summary", ""))
    title = str(data.get("title") or first_line(conversation.task))
    return Worked(ended, title, text, first, last, run.verdict)


async def _verified(bench: Bench, run_id: str, first: Snapshot) -> Report | None:
    """The tests once more, unless the agent ran them after its last change or changed nothing."""
    now = await bench.context.workspace.snapshot("when the agent was done")
    if now.tree == first.tree:
        return None
    try:
        runner = await find_runner(bench.context)
    except NotFound:
        return None  # there are none
    try:
        report = await run_tests(bench.context, [])
    except NotFound as error:  # nor is there what runs them: nobody can say, and everybody is told
        reason = bench.redactor.clean(f"{error} {NOT_THERE}")
        told = {"command": str(runner), "ok": False, "passed": 0, "failed": 0, "skipped": 0, "reason": reason}
        await bench.append([RanTests(run_id=run_id, **told)])
        return None
    await bench.append([RanTests(run_id=run_id, **report.data())])
    return report
