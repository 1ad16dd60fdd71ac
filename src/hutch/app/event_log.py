"""The event log of an installation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app.database import database_of
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog, open_log
from hutch.store.log_size_limit import DEFAULT_LOG_BYTES


@asynccontextmanager
async def event_log(loaded: LoadedSettings, *, log_bytes: int = DEFAULT_LOG_BYTES) -> AsyncIterator[SqlLog]:
    """Open the log and its tables; other processes may have them open too."""
    paths, database = loaded.paths, await asyncio.to_thread(database_of, loaded)
    async with open_log(database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log:
        yield log
