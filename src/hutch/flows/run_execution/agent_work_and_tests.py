"""Turns a prompt into a tested change: the agent works in the workspace, then the tests decide.

A first attempt and one that resumes after a crash or an interruption work the same way: the log
says how far the run got, and all state is rebuilt from the log.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from hutch.agent.conversation import Conversation
from hutch.agent.external_agents.external_agent_run import ExternalAgentRun
from hutch.agent.hooks.hook_runner import mark_hook_text
from hutch.agent.loop import Run
from hutch.agent.repository_map_note import map_note
from hutch.agent.repository_testing.session_test_runs import RequestedTests
from hutch.agent.repository_testing.test_results import Report
from hutch.agent.repository_testing.workspace_test_suite_runs import list_files
from hutch.agent.run_budget import Spent, spent_before
from hutch.agent.run_setup import RunSetup
from hutch.agent.shell_start_and_price_preloading import warm_up
from hutch.agent.system_prompt import repository_notes, system_prompt
from hutch.agent.tools.run_tests import run as run_tests
from hutch.domain.change_title import first_line
from hutch.domain.current_actor_and_author import AGENT, HUTCH, Actor
from hutch.domain.errors import Denied, NotFound
from hutch.domain.events import (
    Entry,
    Event,
    MessageSent,
    RunChanged,
    RunEnded,
    RunResumed,
    RunStarted,
    StepReached,
)
from hutch.domain.no_model_messages import is_offline_script
from hutch.flows.repository_sentence_for_followers import describe_structure
from hutch.flows.run_execution.stored_run_options import DEFAULT_OPTIONS, RunOptions
from hutch.flows.run_facts_from_log import BEFORE, read_run_history
from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.directory_listing import Page

REOPENED = "The shell is new, and no earlier command runs in the background."


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    ended: RunEnded
    title: str
    summary: str
    first: Snapshot  # before it started
    last: Snapshot
    tests: Report | None = None  # the final result, when something was changed and there are tests

    @property
    def changed(self) -> bool:
        return self.first.tree != self.last.tree


async def begin(
    setup: RunSetup,
    run_id: str,
    prompt: str,
    entries: Sequence[Entry] = (),
    *,
    options: RunOptions = DEFAULT_OPTIONS,
    reopened: bool = False,
) -> RunResult:
    """Start a run for a prompt, after the existing entries of the session's log.

    `reopened`: the shells are not those of the previous runs.
    """
    async with warm_up(setup):
        return await _begin(setup, run_id, prompt, entries, options, reopened=reopened)


async def _begin(
    setup: RunSetup,
    run_id: str,
    prompt: str,
    entries: Sequence[Entry],
    options: RunOptions,
    *,
    reopened: bool,
) -> RunResult:
    conversation = Conversation.of(entries)
    notes = _notes(entries) if setup.notes is None else setup.notes
    listed = None if conversation.messages else await list_files(setup.context.workspace)
    is_new = notes is None
    if notes is None:
        notes = await repository_notes(setup.context.workspace, setup.redactor.redact, listed)
    first = await setup.context.workspace.snapshot(BEFORE)
    if is_new and listed:
        mapped = await map_note(setup, prompt, [each.path for each in listed.entries])
        notes = f"{notes}\n\n{mapped}".strip()
    looked = await _looked(setup, run_id, first, listed) if listed else []
    started = RunStarted(
        run_id=run_id,
        prompt=setup.redactor.redact(prompt),
        persona=setup.persona.name,
        model=setup.model.name,
        workspace=setup.context.workspace.record.id,
        context_tokens=setup.model.context_tokens,
        notes=notes,
        **options.fields(),
        **asdict(setup.generation),
    )
    said = await _start_hooks(setup, started.prompt, is_new=not conversation.messages)
    setup.context.workspace.pin(first.id)
    taken = setup.recorder.snapshot_taken(first)
    note = MessageSent(author="hutch", text=REOPENED)
    messages = [*([note] if reopened and conversation.messages else []), *said]
    # Calls that an earlier run left open are closed in the same append: no result may follow the prompt.
    events = [*conversation.interrupted_results(), taken, *looked, started, *messages]
    last_seq = await setup.recorder.append(events)
    for seq, event in enumerate(events, start=last_seq - len(events) + 1):
        conversation.apply(event, seq)
    return await _work(setup, started, conversation, Spent(), first, resumed=False)


async def _start_hooks(setup: RunSetup, prompt: str, *, is_new: bool) -> list[MessageSent]:
    """Run the hooks for a prompt. Their output becomes messages; one that blocks ends the run."""
    if setup.hooks is None:
        return []

    async def warn(problem: str) -> None:
        message = setup.redactor.redact(f"warning: {problem}")
        await setup.recorder.append([StepReached(step="inspecting", message=message)])

    outcomes = [await setup.hooks.on_start(setup.context, warn)] if is_new else []
    outcomes.append(await setup.hooks.on_prompt(prompt, setup.context, warn))
    for outcome in outcomes:
        if outcome.blocked:
            raise Denied(outcome.blocked)
    texts = [outcome.text for outcome in outcomes if outcome.text]
    return [MessageSent(author="hutch", text=mark_hook_text(text)) for text in texts]


async def resume_run(setup: RunSetup, run_id: str, entries: Sequence[Entry]) -> RunResult:
    """Resume a run at the end of its log. A run that was done is only delivered."""
    before = read_run_history(entries, run_id)
    snapshots = setup.context.workspace.snapshots
    first = snapshots.get(before.first)
    setup.context.workspace.pin(first.id)
    if before.ended and before.ended.outcome == "done":
        return RunResult(before.ended, *before.title_and_summary, first, snapshots.get(before.last))
    spent = spent_before(entries)
    if (setup.persona.name, setup.model.name) != _recorded(entries, run_id):  # changed while it was stopped
        await setup.recorder.append([setup.changed_event(run_id, spent.turns + 1)])
    async with warm_up(setup):
        return await _work(setup, before.started, before.conversation, spent, first, resumed=True)


def _recorded(entries: Sequence[Entry], run_id: str) -> tuple[str, str]:
    """The persona and the model of a run, by its log."""
    persona = model = ""
    for entry in entries:
        match entry.event:
            case RunStarted() | RunChanged() as event if event.run_id == run_id:
                persona, model = event.persona, event.model
            case RunResumed() as event if event.run_id == run_id:
                model = event.model or model
    return persona, model


async def _looked(setup: RunSetup, run_id: str, first: Snapshot, listed: Page) -> list[Event]:
    """Describe the repository for the followers of its first run."""
    if not first.files:
        return []
    message = setup.redactor.redact(await describe_structure(setup.context, first, listed))
    return [StepReached(step="inspecting", message=message, run_id=run_id)]


def _notes(entries: Sequence[Entry]) -> str | None:
    """The repository's notes for agents at the start of the session, if a run has recorded them."""
    notes = (entry.event.notes for entry in entries if isinstance(entry.event, RunStarted))
    return next(notes, None)


async def _work(
    setup: RunSetup,
    started: RunStarted,
    conversation: Conversation,
    spent: Spent,
    first: Snapshot,
    *,
    resumed: bool,
) -> RunResult:
    context, run_id = setup.context, started.run_id

    async def verify() -> Report | None:
        # While an agent only answers, people may type: their tests are theirs to run.
        if resumed or _delivers(run.setup, started) or run.execution.may_have_written:
            return await _verified(setup, run_id, first)
        return None

    notes = started.notes
    if notes is None:  # a run of an older version of Hutch
        notes = await repository_notes(context.workspace, setup.redactor.redact)
    describe = partial(_system_prompt, started=started, notes=notes)
    run = (partial(ExternalAgentRun, agent=setup.agent) if setup.agent else Run)(
        run_id,
        setup,
        describe(setup),
        describe=describe,
        conversation=conversation,
        spent=spent,
        verify=verify,
        snapshot=first.id,
        resumed=resumed,
        has_model=not (is_offline_script(started.model) and started.model_reason),
    )
    ended = await run.execute()
    last = run.last if run.last is not None else await context.workspace.snapshot("after the run")
    conclusion = run.execution.conclusion
    data = conclusion.data if conclusion else {}
    text = conclusion.text if conclusion and not data else str(data.get("summary", ""))
    title = str(data.get("title") or first_line(conversation.task))
    return RunResult(ended, title, text, first, last, run.verdict)


def _system_prompt(setup: RunSetup, *, started: RunStarted, notes: str) -> str:
    context = setup.context
    system = system_prompt(
        setup.persona,
        context.workspace,
        jail_path=context.jail.workspace,
        network=context.jail.policy.network,
        notes=notes,
        brief=setup.brief,
        start_in=context.shells.start_in,
        delivers=_delivers(setup, started) and context.workspace.record.commit is not None,
    )
    return setup.redactor.redact(system)


def _delivers(setup: RunSetup, started: RunStarted) -> bool:
    return started.deliver if setup.delivers is None else setup.delivers


async def _verified(setup: RunSetup, run_id: str, first: Snapshot) -> Report | None:
    """Run the tests again, unless the agent ran them after its last change or changed nothing."""
    now = await setup.context.workspace.snapshot("when the agent was done")
    if now.tree == first.tree:
        return None
    actor = Actor(AGENT, "tool", "run_tests")
    try:
        return await run_tests(
            setup.context, RequestedTests(cause="delivery", by=HUTCH, actor=actor, run_id=run_id, waits=True)
        )
    except NotFound:  # there are none, or their runner is missing: then that is recorded
        return None
    except Denied as error:
        command = setup.context.suite_options.command or ""
        return Report(runner="", command=command, counts=None, exit_code=None, refusal=str(error))
