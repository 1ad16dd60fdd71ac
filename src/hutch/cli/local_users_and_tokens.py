"""Access to the users and tokens in the local database; a server may have it open too."""

import asyncio
from collections.abc import Awaitable, Callable

from hutch import settings
from hutch.app import configure_logs
from hutch.app.user_accounts import accounts
from hutch.flows.user_accounts import Accounts


def with_accounts(work: Callable[[Accounts], Awaitable[None]]) -> None:
    """Call `work` with the accounts of this installation."""
    loaded = settings.load()
    configure_logs(loaded)

    async def run() -> None:
        async with accounts(loaded) as found:
            await work(found)

    asyncio.run(run())
