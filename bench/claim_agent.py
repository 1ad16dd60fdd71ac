"""The agent in one process: real jail, log, snapshots and HTTP client; only the provider is imitated.

The alternative works like agents without a sandbox: it spawns the same command directly, and stores the
conversation in a list.
"""

import asyncio
import json
import re
import statistics
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from bench.provider_and_installation import a_place, bash, provider
from bench.result_row import Row

from hutch.agent.run_setup import RunSetup
from hutch.agent.tools.builtin import TOOLS
from hutch.agent.tools.interface import Context, Tool, ToolResult
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.run_limits import DEFAULT_LIMITS
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.llm.interface import CallArguments, CallEnded, CallStarted, Delta, Finish, Model, Request, Text
from tests.agent.run_setups import SetupOptions, entries, open_setup
from tests.llm.provider_formats import ANTHROPIC, CHAT, RESPONSES, Dialect

FILES = {f"d{number % 20}/f{number}.py": b"x = 1\n" * 50 for number in range(200)}
LIMITS = replace(DEFAULT_LIMITS, turns=None)
ROUNDS = 5
TURNS = 60
THINKING_S = 0.3
LONG_TURNS = 200
SOME = 20  # turns, at each end of a long run
NEIGHBOURS = 7
OUTPUT = "printf %1500s x"  # of each command in a long run
CHARS_PER_TOKEN = 3.0  # a safe assumption: JSON and prose have 3.5 to 4.5
MARK = re.compile(
    rb',"cache_control":\{"type":"ephemeral"\}'
)  # Anthropic's, which moves with the conversation
WIRE_ONLY = re.compile(rb'"type":"function",|,"strict":false')  # of each tool; no model reads it


class Clocked:
    """A model that calls a command several times, and stores when it replied and was called again."""

    name = "scripted:clocked"
    context_tokens: int | None = None

    def __init__(self, turns: int, command: str = "true", *, thinks_s: float = 0.0) -> None:
        self._turns, self._command, self._thinks_s = turns, command, thinks_s
        self.requested_at: list[float] = []
        self.answered_at: list[float] = []

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        self.requested_at.append(time.perf_counter())
        number = len(self.requested_at)
        await asyncio.sleep(self._thinks_s)
        yield Text("I look.")
        if number <= self._turns:
            yield CallStarted(f"call_{number}", "bash")
            yield CallArguments(f"call_{number}", json.dumps({"command": f"{self._command} #{number}"}))
            yield CallEnded(f"call_{number}")
        self.answered_at.append(time.perf_counter())
        yield Finish("calls" if number <= self._turns else "stop")

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class Timed:
    """A tool that stores how long each call took."""

    def __init__(self, tool: Tool, took: list[float]) -> None:
        self.name, self.description = tool.name, tool.description
        self.arguments, self.parallel = tool.arguments, tool.parallel
        self._tool, self._took = tool, took

    async def __call__(self, given: Any, context: Context) -> ToolResult:
        began = time.perf_counter()
        try:
            return await self._tool(given, context)
        finally:
            self._took.append(time.perf_counter() - began)


@asynccontextmanager
async def a_setup(model: Model) -> AsyncIterator[RunSetup]:
    with a_place() as place:
        async with open_setup(place, SetupOptions(FILES, "", model=model, limits=LIMITS)) as setup:
            yield setup


async def done(setup: RunSetup) -> None:
    worked = await begin(setup, "run_1", "Look around.")
    assert worked.ended.outcome == "done", worked.ended


def between(answered_at: list[float], requested_at: list[float]) -> list[float]:
    """Milliseconds from each reply to the next request."""
    return [
        (requested - answered) * 1e3
        for answered, requested in zip(answered_at, requested_at[1:], strict=False)
    ]


async def ours() -> float:
    model = Clocked(TURNS)
    async with a_setup(model) as setup:
        await done(setup)
    return quiet(between(model.answered_at, model.requested_at)[1:])


async def first_turn() -> float:
    """The same for the first turn. The model takes a moment, in which the shell starts."""
    model = Clocked(1, thinks_s=THINKING_S)
    async with a_setup(model) as setup:
        await done(setup)
    return between(model.answered_at, model.requested_at)[0]


async def theirs() -> float:
    """The alternative: the conversation is in memory, and the command is spawned directly."""
    conversation: list[dict[str, Any]] = []
    took = []
    for number in range(TURNS):
        began = time.perf_counter()
        conversation.append({"role": "assistant", "command": f"true #{number}"})
        process = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-c", f"true #{number}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        conversation.append(
            {"role": "tool", "out": out.decode(), "err": err.decode(), "code": process.returncode}
        )
        took.append((time.perf_counter() - began) * 1e3)
    return quiet(took)


async def own_times() -> list[float]:
    """Milliseconds of each turn of a long run, without the tool and the model."""
    model, tools = Clocked(LONG_TURNS, OUTPUT), list[float]()
    async with a_setup(model) as setup:
        timed = Toolbox(cast(Tool, Timed(each, tools)) for each in TOOLS).only(setup.persona.tools)
        await done(replace(setup, toolbox=timed))
    whole = between(model.answered_at, model.requested_at)
    return [all_ms - tool_s * 1e3 for all_ms, tool_s in zip(whole, tools, strict=True)]


async def client_times() -> list[float]:
    """Milliseconds from the last byte of each reply to that of the next request, with a real client."""
    replies = [bash(ANTHROPIC, number, OUTPUT) for number in range(LONG_TURNS)]
    async with (
        provider([*replies, ANTHROPIC.reply("That is all.", ())]) as plays,
        a_setup(ANTHROPIC.open(url=plays.url)) as setup,
    ):
        await done(setup)
        await setup.model.close()
    return between(plays.answered_at, plays.requested_at)


async def stable(dialect: Dialect, turns: int) -> tuple[float, float]:
    """The share of requests that begin with the bytes of the previous one, and the tokens of their common
    beginning."""
    replies = [bash(dialect, number, "echo") for number in range(turns)]
    async with (
        provider([*replies, dialect.reply("That is all.", ())]) as plays,
        a_setup(dialect.open(url=plays.url)) as setup,
    ):
        await done(setup)
        await setup.model.close()
    name = b'"input":[' if dialect is RESPONSES else b'"messages":['
    parts = [_parts(MARK.sub(b"", body), name) for body in plays.bodies]
    same = [after[0].startswith(before[0]) and before[1] == after[1] for before, after in pairwise(parts)]
    assert len(same) == turns
    return sum(same) / len(same) * 100, len(WIRE_ONLY.sub(b"", parts[0][1])) / CHARS_PER_TOKEN


def _parts(body: bytes, name: bytes) -> tuple[bytes, bytes]:
    """The conversation without its closing bracket, and the rest of the body."""
    start = body.index(name) + len(name)
    _, length = json.JSONDecoder().raw_decode(body[start - 1 :].decode())
    end = start - 1 + len(body[start - 1 :].decode()[:length].encode())
    return body[start : end - 1], body[:start] + body[end:]


async def resumed(place: Path, turns: int) -> tuple[float, int]:
    """Milliseconds to the next request of a run resumed from its log, and the number of events in it."""
    options = SetupOptions(FILES, "", model=Clocked(turns), limits=replace(DEFAULT_LIMITS, turns=turns))
    async with open_setup(place, options) as setup:
        await begin(setup, "run_1", "Look around.")
        events = len(await entries(setup.recorder))
    took = []
    for _ in range(ROUNDS):
        model = Clocked(0)
        began = time.perf_counter()
        options = SetupOptions(FILES, "", model=model, limits=LIMITS)
        async with open_setup(place, options, setup.recorder.session_id) as again:
            log = await entries(again.recorder)
            await resume_run(again, "run_1", log[:events])  # without the events of earlier rounds
        took.append((model.requested_at[0] - began) * 1e3)
    return min(took), events


def best(measured: Callable[[], Coroutine[Any, Any, float]]) -> float:
    """The best of several rounds, because other processes use the machine too."""
    return min(asyncio.run(measured()) for _ in range(ROUNDS))


def early_and_late(measured: Callable[[], Coroutine[Any, Any, list[float]]]) -> tuple[float, float]:
    """The times of a long run's first and last turns, each the best of several rounds."""
    rounds = [asyncio.run(measured()) for _ in range(ROUNDS)]
    return min(quiet(turns[1:SOME]) for turns in rounds), min(quiet(turns[-SOME:]) for turns in rounds)


def quiet(times: list[float]) -> float:
    """The median of the consecutive values that were disturbed the least."""
    return min(statistics.median(times[at : at + NEIGHBOURS]) for at in range(len(times) - NEIGHBOURS + 1))


def measure() -> Iterator[Row]:
    turn, bare = best(ours), best(theirs)
    yield Row("a jailed and durably logged turn with one command", turn, None, "ms", 10)
    yield Row("the same", turn, bare, "ms", 5, "the command spawned bare, a list in memory")
    yield Row("the first turn of a run with one command", best(first_turn), None, "ms", 20)
    first, last = early_and_late(own_times)
    yield Row("agent's own time, turn 2", first, None, "ms", 5)
    yield Row("agent's own time, turn 200", last, None, "ms", 5)
    yield Row("the same", last, first, "ms", 1.5, "turn 2")
    first, last = early_and_late(client_times)
    yield Row("a whole turn, with Anthropic's client, turn 2", first, None, "ms", 10)
    yield Row("a whole turn, with Anthropic's client, turn 200", last, None, "ms", 10)
    for dialect in (ANTHROPIC, CHAT, RESPONSES):
        share, tokens = asyncio.run(stable(dialect, 50))
        yield Row(f"{dialect}: requests that begin with the one before", share, None, "%", 100, at_least=True)
        yield Row(f"{dialect}: system prompt and tools", tokens, None, "tokens", 3000)
    with a_place() as place:
        took, events = asyncio.run(resumed(place, 100))
    yield Row(f"resumed in process, {events} events: to the next request", took, None, "ms", 1000)
