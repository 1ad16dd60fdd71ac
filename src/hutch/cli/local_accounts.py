"""The users and tokens in the database of this machine; a server may have it open too."""

import asyncio
from collections.abc import Awaitable, Callable

from hutch import app as wiring
from hutch import settings
from hutch.app.accounts import accounts
from hutch.flows.users import Accounts


def with_accounts(work: Callable[[Accounts], Awaitable[None]]) -> None:
    """Do something with them."""
    loaded = settings.load()
    wiring.configure_logs(loaded)

    async def run() -> None:
        async with accounts(loaded.paths) as held:
            await work(held)

    asyncio.run(run())
