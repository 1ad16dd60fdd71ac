"""A run in which an external agent works: its program runs in the jail, and its model is the session's.

Everything around it is that of every run: limits, snapshots, the record, tests and the end. Each of its model
requests is a turn of the run, and the calls that it makes are recorded with their results.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from typing import Any

from hutch.agent.external_agents.external_agent_commands import (
    COMMANDS,
    external_agent_command,
    external_agent_environment,
)
from hutch.agent.external_agents.model_endpoint import CHARS_PER_TOKEN, ModelEndpoint
from hutch.agent.loop import Outcome, Run
from hutch.agent.model_call import FirstToken, cleaned, replied
from hutch.agent.text_for_model import without_surrogates
from hutch.agent.tools.bash import agent_shell
from hutch.agent.tools.interface import ToolResult
from hutch.domain.current_actor_and_author import AGENT, Actor, acting
from hutch.domain.errors import BudgetReached, LimitReached
from hutch.domain.events import CallMade, Event, ModelReplied, ToolCalled, ToolReturned
from hutch.jail.shell.command_results_and_events import Result
from hutch.llm.interface import Call, Delta, FromTool, Request, Usage
from hutch.llm.reply_builder import Reply, ReplyBuilder
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end

SILENCE_TIMEOUT_S = 3600.0
MAX_REMEMBERED = 2_000  # replies
MAX_RESULT_CHARS = 100_000
NOT_FOUND = 127  # the exit code of a shell that does not find a program
MISSING = " Install it below /usr, or name its directory in jail.toolchains."
MAX_END_CHARS = 600  # of a program's output, in the reason why it failed


@dataclass(slots=True)
class ExternalAgentRun(Run):
    """A run whose work another agent does."""

    agent: str = ""  # its name, or its command
    _opaque: OrderedDict[tuple[str, ...], Mapping[str, Any]] = field(default_factory=OrderedDict)
    _calls: dict[str, CallMade] = field(default_factory=dict)  # without a result so far
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _limit: str = ""  # the sentence about the limit that stopped it
    _budget: BudgetReached | None = None
    _last_text: str = ""

    async def _work(self) -> tuple[Outcome, str]:
        command, token = external_agent_command(self.agent), secrets.token_urlsafe(32)
        endpoint = ModelEndpoint(self._request_for_agent, token, self._find_opaque, self._clean)
        async with endpoint.serve(self.context.jail) as port:
            ended = await self._run_program(
                command, external_agent_environment(port, token, self.conversation.task)
            )
        if self._budget is not None:
            raise self._budget
        if self._limit:
            return "limit_reached", self._limit
        if ended is not None and ended.exit_code != 0:
            hint = MISSING if ended.exit_code == NOT_FOUND and self.agent in COMMANDS else ""
            return "failed", f"{self._name} {_describe_end(ended, self._clean)}{hint}"
        self.execution.conclusion = ToolResult(self._last_text)
        return await self._conclude()

    async def _run_program(self, command: str, environment: Mapping[str, str]) -> Result | None:
        """Run the agent in its shell; None if a limit of the run has stopped it."""
        shell = agent_shell(self.context.shells)
        output = self.context.open_output(shell.name) if self.context.open_output else None
        actor = Actor(AGENT, "tool", "bash")
        with acting(actor), self.context.working(actor):
            running = asyncio.ensure_future(
                shell.run(
                    command,
                    silence_s=SILENCE_TIMEOUT_S,
                    env=environment,
                    stdin=b"",
                    on_output=output.add if output else None,
                    on_end=output.end if output else None,
                )
            )
            stopping = asyncio.ensure_future(self._stopped.wait())
            try:
                await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
                return await running if running.done() else None
            finally:
                stopping.cancel()
                running.cancel()
                await asyncio.gather(running, stopping, return_exceptions=True)

    async def _request_for_agent(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """The deltas of a reply, and then the whole reply, which is in the log by then."""
        async with self._asking:
            self._check_limits()
            await self._record_results(request)
            began, builder = time.monotonic(), ReplyBuilder()
            first, setup = FirstToken(self.setup.on_delta), self.setup
            try:
                async with aclosing(setup.model.stream(request)) as deltas:
                    async for delta in deltas:
                        builder.add(delta)
                        first(delta)
                        yield delta
            except BudgetReached as error:
                self._budget = error
                self._stopped.set()
                raise
            except (asyncio.CancelledError, GeneratorExit):
                # The agent left. The provider charges for the reply so far, so it counts.
                await run_to_end(self._record_reply(_broken_off(builder.reply(), request), began, first))
                raise
            whole = builder.reply()
            event = await self._record_reply(whole, began, first)
            self._calls |= {call.id: call for call in event.calls}
            self._last_text = event.text or self._last_text
            self._remember(whole, event.opaque)
            yield whole

    async def _record_reply(self, reply: Reply, began: float, first: FirstToken) -> ModelReplied:
        """Count a reply, and append it to the log."""
        setup, turn, first_s = self.setup, self.spent.turns + 1, first.since(began)
        clean = cleaned(reply, setup.redactor)
        event = replied(self.run_id, turn, setup.model, clean, began, setup.prices, first_token_s=first_s)
        self.spent.add(clean.usage, event.cost_usd)
        await setup.recorder.append([event])
        return event

    def _check_limits(self) -> None:
        if sentence := self.spent.describe_reached(self.setup.limits):
            self._limit = sentence
            self._stopped.set()
            raise LimitReached(sentence, limit="run")

    async def _record_results(self, request: Request) -> None:
        """Record the calls whose results a request has."""
        events: list[Event] = []
        for message in request.messages:
            if isinstance(message, FromTool) and (call := self._calls.pop(message.call_id, None)):
                about = {"run_id": self.run_id, "call_id": call.id, "tool": call.tool}
                text = self._clean(message.text[:MAX_RESULT_CHARS])
                events.append(ToolCalled(**about, arguments=call.arguments))
                events.append(ToolReturned(**about, ok=message.ok, text=text))
        if events:
            await self.setup.recorder.append(events)

    def _remember(self, reply: Reply, opaque: Mapping[str, Any]) -> None:
        """Keep what a provider needs back with the next request: other protocols do not carry it."""
        self._opaque[_key(reply.text, reply.calls)] = opaque
        if len(self._opaque) > MAX_REMEMBERED:
            self._opaque.popitem(last=False)

    def _find_opaque(self, text: str, calls: tuple[Call, ...]) -> Mapping[str, Any]:
        return self._opaque.get(_key(text, calls), {})

    def _clean(self, text: str) -> str:
        return self.setup.redactor.redact(without_surrogates(text))

    @property
    def _name(self) -> str:
        return self.agent.split()[0] if self.agent.split() else "The agent"


def _key(text: str, calls: tuple[Call, ...]) -> tuple[str, ...]:
    """Agents send the ids of calls back as they were, but may trim or drop the text beside them."""
    return tuple(call.id for call in calls) or (text.strip(),)


def _broken_off(reply: Reply, request: Request) -> Reply:
    """The part of a reply that arrived. Its usage is estimated, as providers report it at the end."""
    texts = [request.system, *(message.text for message in request.messages)]
    written = len(reply.text) + len(reply.thinking)
    least = Usage(
        input=max(reply.usage.input, sum(map(len, texts)) // CHARS_PER_TOKEN),
        cached=reply.usage.cached,
        output=max(reply.usage.output, written // CHARS_PER_TOKEN),
    )
    return replace(reply, calls=(), usage=least, finish="other")


def _describe_end(ended: Result, clean: Any) -> str:
    how = f"ended with exit code {ended.exit_code}"
    if ended.timed_out:
        how = "was killed: it printed nothing for an hour"
    elif ended.signal is not None:
        how = f"was ended by signal {ended.signal}"
    printed = clean(ended.stderr.strip() or ended.stdout.strip())[-MAX_END_CHARS:]
    return f"{how}: {printed}" if printed else f"{how}."
