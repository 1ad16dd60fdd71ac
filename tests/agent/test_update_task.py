"""The tool `update_task`: only in the session of a task, within the budget of the prompt."""

from pathlib import Path

import pytest

from hutch.agent.persona import built_in, load_persona
from hutch.agent.system_prompt import system_prompt
from hutch.agent.tools.builtin import TOOLS, built_in_tools
from hutch.agent.tools.interface import Context
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.agent.tools.update_task import MAX_REPORTS, UpdateTask, UpdateTaskArguments
from hutch.domain.errors import BadRequest, LimitReached
from tests.agent.run_setups import open_tool_env
from tests.agent.test_tool_schemas_and_dispatch import CHARS_PER_TOKEN, MAX_TOKENS, specs_json

pytestmark = pytest.mark.anyio
LIKELY_CHARS_PER_TOKEN = 3.5  # the least that JSON and prose take


class Reports:
    """A task that remembers what was reported."""

    def __init__(self) -> None:
        self.made: list[tuple[object, ...]] = []

    async def progress(self, text: str) -> str:
        self.made.append((text,))
        return "Noted."

    async def prove(self, criterion: int, evidence: str, context: Context) -> str:
        self.made.append((criterion, evidence))
        return f"Criterion {criterion} is marked as met."


@pytest.mark.parametrize("name", sorted(built_in()))
async def test_with_it_the_prompt_and_tools_stay_within_their_budget(name: str, tmp_path: Path) -> None:
    persona = load_persona(name, known_tools=built_in_tools().names)
    async with open_tool_env(tmp_path, {"a.py": b""}) as env:
        system = system_prompt(persona, env.context.workspace, jail_path="/workspace", network=(), notes="")
    tools = (*(each for each in TOOLS if each.name in persona.tools), UpdateTask(Reports()))
    # The other tools alone are within the stricter estimate; this one may add a few tokens to them.
    assert len(specs_json(Toolbox(tools[-1:]))) / CHARS_PER_TOKEN < 250
    assert len(system + specs_json(Toolbox(tools))) / LIKELY_CHARS_PER_TOKEN < MAX_TOKENS


async def test_reports_reach_the_task_and_are_limited(tmp_path: Path) -> None:
    reports = Reports()
    tool = UpdateTask(reports)
    async with open_tool_env(tmp_path, {"a.py": b""}) as env:
        args = UpdateTaskArguments(progress=" half ", criterion=2, evidence=" a.py ")
        assert (await tool(args, env.context)).text == "Criterion 2 is marked as met. Noted."
        assert reports.made == [(2, "a.py"), ("half",)]
        for wrong in ({"criterion": 1}, {"evidence": "a"}, {}, {"progress": " "}):
            with pytest.raises(BadRequest):
                await tool(UpdateTaskArguments(**wrong), env.context)
        for _ in range(MAX_REPORTS - 1):
            await tool(UpdateTaskArguments(progress="x"), env.context)
        with pytest.raises(LimitReached):
            await tool(UpdateTaskArguments(progress="x"), env.context)
