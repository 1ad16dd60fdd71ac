"""The tools of one session: an added tool is offered and used in that session only."""

from pathlib import Path
from typing import ClassVar

import pytest

from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.domain import inputs
from hutch.domain.errors import Conflict
from hutch.domain.events import RunEnded, ToolReturned
from hutch.domain.session import NewSession, Session
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.run_execution.agent_work_and_tests import begin
from hutch.gateway.gateway_context import Server
from hutch.llm.interface import Request
from tests.agent.run_setups import FunctionModel, SetupOptions, Turn, open_setup
from tests.agent.run_setups import call as called
from tests.sessions.session_server import call, cassette, owner, repository, serving, state, until

pytestmark = pytest.mark.anyio

PERSONA = "---\ntools: [lookup, finish]\n---\nLook words up.\n"


class LookupArguments(Arguments):
    word: str


class Lookup:
    name: ClassVar[str] = "lookup"
    description: ClassVar[str] = "The meaning of a word."
    arguments: ClassVar[type[Arguments]] = LookupArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, given: LookupArguments, context: Context) -> ToolResult:
        return ToolResult(f"{given.word}: a house for rabbits")


def test_a_name_is_given_once() -> None:
    tools = built_in_tools()
    tools.add(Lookup())
    with pytest.raises(Conflict, match="'lookup'"):
        tools.add(Lookup())
    assert [tool.name for tool in tools] == [*built_in_tools().names, "lookup"]
    assert [tool.name for tool in tools.select({"lookup", "bash", "no_such"})] == ["bash", "lookup"]


async def test_an_added_tool_is_offered_to_the_model(tmp_path: Path) -> None:
    (tmp_path / "linguist.md").write_text(PERSONA)

    def think(request: Request) -> Turn:
        if len(request.messages) > 2:
            return Turn("Known.")
        return Turn(calls=(called("lookup", word="hutch"),))

    tools, model = built_in_tools(), FunctionModel(think)
    tools.add(Lookup())
    options = SetupOptions({"a": b""}, "", persona="linguist", folder=tmp_path, model=model, tools=tools)
    async with open_setup(tmp_path, options) as setup:
        await begin(setup, "run_1", "What is a hutch?")
    assert [spec.name for spec in model.seen[0].tools] == ["finish", "lookup"]
    assert "a house for rabbits" in str(model.seen[1].messages)


async def test_a_tool_exists_only_in_the_session_that_it_was_added_to(tmp_path: Path) -> None:
    replies = [call("lookup", word="hutch"), call("finish", title="Known")]
    model, repo = cassette(tmp_path / "c.json", replies), repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        folder = server.loaded.paths.personas
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "linguist.md").write_text(PERSONA.replace("lookup, ", ""))
        new = NewSession(repository=str(repo), model=model, persona="linguist", deliver=False)
        one, other = [await sessions.create(server.services, who, new) for _ in range(2)]
        # Not before: a persona is checked against the built-in tools when a session is requested.
        (folder / "linguist.md").write_text(PERSONA)
        for session in (one, other):
            await state(server, who, session.id, "idle", "parked")
        server.host._lives[one.id].tools.add(Lookup())  # type: ignore[attr-defined]
        returned, ended = await _prompt(server, who, one)
        assert [(each.tool, each.ok) for each in returned] == [("lookup", True), ("finish", True)]
        assert returned[0].text == "hutch: a house for rabbits" and ended.outcome == "done"
        returned, ended = await _prompt(server, who, other)
        assert not returned and ended.outcome == "failed"
        assert "names tools that do not exist: lookup" in ended.reason


async def _prompt(server: Server, who: Caller, session: Session) -> tuple[list[ToolReturned], RunEnded]:
    await sessions.give(server.services, who, session.id, inputs.Prompt(text="What is a hutch?"))
    events = await until(server, session.id, "run.ended")
    assert isinstance(events[-1], RunEnded)
    return [event for event in events if isinstance(event, ToolReturned)], events[-1]
