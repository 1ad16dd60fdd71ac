"""The agent's shell starts before the model's first command."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hutch.flows.run_execution.agent_work_and_tests import begin
from hutch.jail.running_jail import Jailed
from hutch.llm.interface import Delta, Finish, Request, Text
from tests.agent.run_setups import SetupOptions, open_setup
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
COUNT_SHELLS = """
n=0
for each in /proc/[0-9]*/exe; do
    [ "$(readlink $each)" -ef /bin/bash ] && n=$((n+1))
done
echo $n
"""


class Watcher:
    """A model that replies when bash runs in the jail, and calls no tool itself."""

    name = "scripted:watcher"
    context_tokens: int | None = None
    jail: Jailed
    shells = 0

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        async with asyncio.timeout(DEADLINE_S):
            while not self.shells:
                found = await self.jail.run(["/bin/sh", "-c", COUNT_SHELLS])
                self.shells = int(found.stdout)
        yield Text("That is all.")
        yield Finish("stop")

    async def close(self) -> None:
        """Do nothing: no connection is open."""


async def test_the_agents_shell_starts_during_the_first_request(tmp_path: Path) -> None:
    model = Watcher()
    async with open_setup(tmp_path, SetupOptions({"a.txt": b"a\n"}, "", model=model)) as setup:
        assert isinstance(setup.context.jail, Jailed)
        model.jail = setup.context.jail
        finished = await begin(setup, "run_1", "Look.")
    assert (finished.ended.outcome, model.shells) == ("done", 1)
