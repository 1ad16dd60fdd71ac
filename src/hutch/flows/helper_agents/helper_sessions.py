"""Starts helpers, waits for their results, and takes their changes.

`helper.started` is written before the session of a helper exists, with its id. So after a crash the same
call finds the helpers that it had started, and waits for them instead of starting others.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from hutch.agent.persona import Persona
from hutch.agent.tools.delegate import DELEGATE, HelperTask
from hutch.agent.tools.interface import Context, ToolResult
from hutch.domain.current_actor_and_author import current_actor
from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached, NotFound, Unavailable
from hutch.domain.events import Entry, RunEnded, RunQueued, SessionEnded, SessionOpened, ToolReturned
from hutch.domain.helper_agent_events import HelperChangesTaken, HelperEnded, HelperStarted
from hutch.domain.ids import SessionId, new_run_id, new_session_id
from hutch.domain.inputs import Cancel, End, Input, Pause, Resume
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.one_line_text import echo
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NO_TRIES, QueuedRun, Session
from hutch.domain.trace_id import trace_id
from hutch.flows.helper_agents.helper_change_merge import merge_changes, read_changes
from hutch.flows.helper_agents.helper_results import (
    MAX_FILES,
    MAX_PATCH_CHARS,
    EndedHelper,
    describe_results,
    ended_in,
    name_files,
)
from hutch.flows.helper_agents.helper_rights import HelperLimits, HelperPlan, budgets_of, rights_of_helper
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.run_facts_from_log import RunHistory, read_run_history
from hutch.sessions.interface import Delta
from hutch.sessions.live_session import LiveSession
from hutch.sessions.live_session_host import LocalHost
from hutch.store.session_creation import OpenedSession, open_session
from hutch.store.session_inputs import Inputs
from hutch.store.sessions import Sessions
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end, wait_until_done

MAX_UNPROCESSED = 1000  # inputs of a helper: those that stop it must not be refused
FindPersona = Callable[[str], Persona]


@dataclass(frozen=True, slots=True)
class HelperSessions:
    """The helpers of one session's run."""

    live: LiveSession
    session: Session
    persona: Persona  # of the run
    host: LocalHost
    find_persona: FindPersona
    limits: HelperLimits

    # --- delegate ---

    async def delegate(self, tasks: Sequence[HelperTask], context: Context) -> ToolResult:
        assert context.budget is not None
        entries = await self.live.entries()
        started = self.started_before(entries, context.run_id)
        if not started:
            self._check_count(len(tasks), context.run_id, entries)
            budgets = budgets_of(tasks, context.budget.remaining())
            plans = [self._plan(task, budget) for task, budget in zip(tasks, budgets, strict=True)]
            started = await self.start(plans, context, entries)
        ended = ended_in(entries)
        places = asyncio.Semaphore(self.limits.parallel)

        async def one(start: HelperStarted) -> EndedHelper | HutchError:
            async with places:
                try:
                    return await self.see_through(start, ended.get(start.helper))
                except HutchError as error:
                    return error

        waiting = [asyncio.ensure_future(one(each)) for each in started]
        try:
            results = await asyncio.gather(*waiting)
        except asyncio.CancelledError:
            await self.stop_all(started, waiting)
            raise
        for result in results:
            if isinstance(result, EndedHelper) and result.event.helper not in ended:
                context.budget.charge(result.event)
        return describe_results(started, results)

    async def stop_all(
        self, started: Sequence[HelperStarted], waiting: "Sequence[asyncio.Future[Any]]"
    ) -> None:
        """Stop helpers whose parent is stopped, and what waits for them."""
        for each in waiting:
            each.cancel()
        await run_to_end(self.stop(started, leaves_open=self.live.leaves_open))
        await wait_until_done(*waiting)

    def started_before(self, entries: Sequence[Entry], run_id: str) -> list[HelperStarted]:
        """The helpers that this call had started before a crash or a pause."""
        call_id, found = current_actor().call_id, {}
        for event in (entry.event for entry in entries):
            match event:
                case HelperStarted(run_id=run, call_id=call) if (run, call) == (run_id, call_id):
                    found[event.index] = event
                case ToolReturned(run_id=run, call_id=call, tool=tool) if tool == DELEGATE:
                    if (run, call) == (run_id, call_id):
                        found = {}  # models may use an id twice
        return [found[index] for index in sorted(found)]

    def _check_count(self, count: int, run_id: str, entries: Sequence[Entry]) -> None:
        had = sum(isinstance(each.event, HelperStarted) and each.event.run_id == run_id for each in entries)
        if had + count > self.limits.per_run:
            raise LimitReached(
                f"A run may have {self.limits.per_run} helpers, and this one has had {had}. "
                "Give fewer tasks, or do the work yourself.",
                limit="helpers",
            )

    def _plan(self, task: HelperTask, limits: RunLimits) -> HelperPlan:
        persona = self.find_persona(task.persona) if task.persona else None
        return HelperPlan(
            task=task.task,
            persona=task.persona or self.session.persona,
            model=(persona.model if persona else None) or self.session.model,
            limits=limits,
        )

    async def start(
        self, plans: Sequence[HelperPlan], context: Context, entries: Sequence[Entry]
    ) -> list[HelperStarted]:
        """Record helpers; their sessions are opened later."""
        earlier = sum(isinstance(each.event, HelperStarted) for each in entries)
        taken = await context.workspace.snapshot("before helpers")
        started = [
            HelperStarted(
                run_id=context.run_id,
                call_id=current_actor().call_id,
                index=index,
                name=f"h{earlier + index + 1}",
                helper=new_session_id(),
                task=self.live.recorder.redactor.redact(plan.task),
                persona=plan.persona,
                model=plan.model,
                temperature=plan.temperature,
                snapshot=taken.id,
                **plan.limits.event_fields(),
            )
            for index, plan in enumerate(plans)
        ]
        context.workspace.pin(taken.id)
        await self.live.append(started)
        return started

    async def see_through(
        self, start: HelperStarted, ended: HelperEnded | None, *, origin: str = ""
    ) -> EndedHelper:
        """Open the session of a helper, unless it exists, and wait until its run has ended. Its files are
        those of `origin`, a session at a snapshot; by default of this one."""
        id = SessionId(start.helper)
        try:
            session = await Sessions(self.live.dependencies.rows).get(id)
        except NotFound:
            session = await self._open(start, origin or f"{self.session.id}@{start.snapshot}")
        if session.state == "paused":
            await self.give(id, Resume())
        await self.host.input(id)
        run_ended = await self.wait(id)
        await self.host.worker.wait_for(run_ended.run_id)
        event, summary, patch = await self._result(start, run_ended)
        if ended is None:
            await self.live.append([event])
        await self.host.close(id, reason="its task is done")
        return EndedHelper(event, summary, patch)

    async def _open(self, start: HelperStarted, origin: str) -> Session:
        generation = self.session.generation
        if start.temperature is not None:
            generation = replace(generation, temperature=start.temperature)
        return await self.open_child(
            SessionId(start.helper),
            start.task,
            origin,
            persona=start.persona,
            model=start.model,
            limits=RunLimits(start.max_turns, start.max_tokens, start.max_cost_usd, start.timeout_s),
            generation=generation,
        )

    async def open_child(
        self, id: SessionId, purpose: str, origin: str, *, prompts: bool = True, **options: Any
    ) -> Session:
        """Open a session below this one, with the files of another at a snapshot; the purpose is its first
        prompt, unless it gets none."""
        dependencies, parent, now = self.live.dependencies, self.session, wall_ms()
        delivery = replace(
            parent.delivery,
            title="",
            titled=True,
            review="",
            task="",
            record="",
            starter_files=0,
            tries=NO_TRIES,
        )
        child = replace(
            parent,
            id=id,
            purpose=purpose[:200],
            deliver=False,
            delivery=delivery,
            workspace_id="",
            forked_from=origin,
            parent=parent.id,
            helper=rights_of_helper(self.persona, parent, self.limits),
            state="queued",
            reason="",
            created_ms=now,
            updated_ms=now,
            **options,
        )
        run = QueuedRun(
            id=new_run_id(),
            session_id=id,
            owner=child.owner,
            kind="prompt" if prompts else "prepare",
            prompt=purpose if prompts else "",
            worker=dependencies.reserved_for,
            queued_ms=now,
            trace_id=trace_id(),
        )
        names = ("purpose", "owner", "role", "company", "expectations", "secrets")
        variables = tuple(name for name, _ in child.variables)
        opened = SessionOpened(**{name: getattr(child, name) for name in names}, variables=variables)
        queued = [RunQueued(run_id=run.id, prompt=run.prompt, by=child.owner)] if prompts else []
        await open_session(self.live.log, OpenedSession(child, run), [opened, *queued])
        return child

    async def wait(self, id: SessionId) -> RunEnded:
        async with aclosing(self.host.follow(id, WHOLE)) as updates:
            async for update in updates:
                if not isinstance(update, Delta):
                    if isinstance(update.event, RunEnded):
                        return update.event
                    if isinstance(update.event, SessionEnded):
                        raise Unavailable(f"The helper's session has ended. {update.event.reason}".strip())
        raise Unavailable("The helper's session has ended.")

    async def _result(self, start: HelperStarted, ended: RunEnded) -> tuple[HelperEnded, str, str]:
        title = summary = tests = patch = ""
        files = added = deleted = 0
        if (history := await self.history(start.helper, ended.run_id)) is not None:
            title, summary = history.title_and_summary
            if history.tests is not None:
                tests = f"{history.tests.passed} passed, {history.tests.failed} failed"
            async with self.host.sandbox(SessionId(start.helper)) as sandbox:
                workspace = sandbox.workspace
                changes = await workspace.changes(history.first, history.last)
                found, _ = await workspace.patch(history.first, history.last, max_bytes=MAX_PATCH_CHARS * 2)
            files = len(changes)
            added = sum(each.added or 0 for each in changes)
            deleted = sum(each.deleted or 0 for each in changes)
            patch = found.decode(errors="replace")
        names = ("outcome", "reason", "turns", "input_tokens", "cached_tokens", "output_tokens")
        clean = self.live.recorder.redactor.redact
        event = HelperEnded(
            run_id=start.run_id,
            name=start.name,
            helper=start.helper,
            title=clean(title),
            tests=tests,
            files=files,
            added=added,
            deleted=deleted,
            cost_usd=ended.cost_usd,
            duration_s=ended.duration_s,
            **{name: getattr(ended, name) for name in names},
        )
        return event, summary, patch

    async def history(self, helper: str, run_id: str | None = None) -> RunHistory | None:
        """The work of a helper; None if its run never started."""
        try:
            return read_run_history(await read_log(self.live.log, SessionId(helper)), run_id)
        except NotFound:
            return None

    async def stop(self, started: Sequence[HelperStarted], *, leaves_open: bool) -> None:
        """Stop the helpers with their parent: they end as cancelled, or pause until it continues."""
        if leaves_open and self.host.worker.closing:
            return  # they are stopped in the same way, and continue after the restart
        asked = Pause() if leaves_open else Cancel()
        for each in started:
            try:
                session = await Sessions(self.live.dependencies.rows).get(each.helper)
            except NotFound:  # its turn had not come
                continue
            if session.state != "ended":
                await self.give(session.id, asked)

    async def give(self, id: SessionId, asked: Input) -> None:
        inputs = Inputs(self.live.dependencies.rows)
        body = asked.model_dump_json()
        await inputs.add(id, self.session.owner, body, max_unprocessed=MAX_UNPROCESSED)
        await self.host.input(id)

    # --- helper_changes ---

    async def show(self, name: str, path: str) -> ToolResult:
        start, history = await self._find(name)
        async with self.host.sandbox(SessionId(start.helper)) as sandbox:
            patch, _ = await sandbox.workspace.patch(history.first, history.last, path=path)
        text = patch.decode(errors="replace")
        return ToolResult(text or f"{name} changed nothing{f' in {path}' if path else ''}.")

    async def take(self, name: str, context: Context, *, drops: bool, marks_conflicts: bool) -> ToolResult:
        start, history = await self._find(name)
        if drops:
            await self.record_taken(start, context, "dropped", ())
            return ToolResult(f"The changes of {name} are dropped.")
        async with self.host.sandbox(SessionId(start.helper)) as sandbox:
            changes = await read_changes(sandbox.workspace, history.first, history.last)
        merged = await merge_changes(context.workspace, changes, name, marks_conflicts=marks_conflicts)
        conflicts = [f"- {path}: {why}" for path, why in merged.conflicts.items()]
        if conflicts and not merged.files:
            return ToolResult(
                "\n".join([f"Nothing is merged. {name} is in conflict with your files:", *conflicts]),
                ok=False,
            )
        await self.record_taken(start, context, "merged", merged.files)
        said = (
            f"Merged the changes of {name}: {name_files(merged.files)}."
            if merged.files
            else (f"{name} has no changes that you do not have already.")
        )
        marked = ["These have conflict markers; edit them:", *conflicts] if conflicts else []
        return ToolResult("\n".join([said, *marked]))

    async def _find(self, name: str) -> tuple[HelperStarted, RunHistory]:
        entries = await self.live.entries()
        started = {each.event.name: each.event for each in entries if isinstance(each.event, HelperStarted)}
        if name not in started:
            known = f"There are {', '.join(started)}." if started else "You have not delegated anything."
            raise NotFound(f"There is no helper {echo(name, 20)}. {known}")
        history = await self.history(started[name].helper)
        if history is None:
            raise BadRequest(f"{name} never started, so it has no changes.")
        if history.ended is None:
            raise Conflict(f"{name} is still at work.")
        return started[name], history

    async def record_taken(
        self, start: HelperStarted, context: Context, action: str, files: Sequence[str]
    ) -> None:
        """Record the decision, and end the helper's session."""
        clean = self.live.recorder.clean_path
        event = HelperChangesTaken(
            run_id=context.run_id,
            name=start.name,
            helper=start.helper,
            action="merged" if action == "merged" else "dropped",
            files=tuple(clean(path) for path in files[:MAX_FILES]),
            files_count=len(files),
        )
        await self.live.append([event])
        try:
            await self.give(SessionId(start.helper), End(reason=f"its changes were {action}"))
        except Conflict:
            return  # a user has ended it already
