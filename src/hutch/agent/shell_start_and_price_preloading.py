"""Starts the shell and loads the prices that a run needs, while the model writes its first reply."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from hutch.agent.run_setup import RunSetup
from hutch.agent.tools.bash import Bash, agent_shell
from hutch.domain.errors import HutchError
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.llm.reply_cost import is_priced
from hutch.system.task_cancellation import running

REQUEST_SENT_S = 0.1  # by then the request is sent, and loading does not delay it


@asynccontextmanager
async def warm_up(setup: RunSetup) -> AsyncIterator[None]:
    """Start the agent's shell and load the prices of models, for the run inside the block."""
    work = [_load_prices(setup)]
    if Bash.name in setup.toolbox:
        work.append(_start_shell(setup.context.shells))
    async with running(*work):
        yield


async def _start_shell(shells: Shells) -> None:
    with suppress(HutchError):  # the first command retries, and reports the error
        await agent_shell(shells).start()


async def _load_prices(setup: RunSetup) -> None:
    await asyncio.sleep(REQUEST_SENT_S)
    await asyncio.to_thread(is_priced, setup.model.name, setup.prices)
