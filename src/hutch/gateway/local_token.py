"""The token of commands on the server's own machine.

The server creates it when it starts and revokes it when it ends. It replaces a token that
is about to expire: after a year, or when the wall clock was set ahead, for example because
the machine got the time from the network after the server had started.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.user import scopes_of
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.settings import Paths
from hutch.system.atomic_file import write_private
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.server_announcement_and_discovery import local_token

LIFE_DAYS = 365
RENEW_BEFORE_MS = 24 * 3600 * 1000
CHECK_INTERVAL_S = 10.0

logger = structlog.get_logger("hutch.serve")


async def create(accounts: Accounts, old: str | None) -> str:
    """A new token; the old one no longer works."""
    await revoke(accounts, old)
    owner = await accounts.ensure_owner(system_user())
    _, secret = await accounts.new_token(
        owner, name="local cli", scopes=scopes_of(owner.role), days=LIFE_DAYS, actor=LOCAL
    )
    return secret


async def revoke(accounts: Accounts, secret: str | None) -> None:
    found = await accounts.tokens.recognise(secret) if secret else None
    if found is not None and found[0].revoked_ms is None:
        await accounts.revoke_token(found[0].id, LOCAL)


@asynccontextmanager
async def renewing(accounts: Accounts, paths: Paths) -> AsyncIterator[None]:
    """Replace the token before it expires, for as long as the block lasts."""
    task = asyncio.ensure_future(_renew(accounts, paths))
    try:
        yield
    finally:
        task.cancel()


async def _renew(accounts: Accounts, paths: Paths) -> None:
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        try:
            secret = await asyncio.to_thread(local_token, paths.server_files)
            found = await accounts.tokens.recognise(secret) if secret else None
            if found is None or found[0].revoked_ms is not None:  # a user revoked it on purpose
                continue
            if not found[0].is_valid(wall_ms() + RENEW_BEFORE_MS):
                new = await create(accounts, secret)
                await asyncio.to_thread(write_private, paths.local_token, new)
                logger.info("local_token.renewed")
        except (HutchError, OSError) as error:  # a full disk, for example: the next attempt may succeed
            logger.warning("local_token.not_renewed", problem=str(error))
