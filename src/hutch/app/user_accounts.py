"""The users of an installation, read from its local database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app.event_log import event_log
from hutch.flows.user_accounts import Accounts
from hutch.settings import LoadedSettings


@asynccontextmanager
async def accounts(loaded: LoadedSettings) -> AsyncIterator[Accounts]:
    """Users and tokens; a server that has the database open notices changes within seconds."""
    async with event_log(loaded) as log:
        yield Accounts(log)
