"""The event log of an installation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.settings.paths import Paths
from hutch.store.bound import DEFAULT_LOG_BYTES
from hutch.store.log import SqlLog, open_log


@asynccontextmanager
async def event_log(paths: Paths, *, log_bytes: int = DEFAULT_LOG_BYTES) -> AsyncIterator[SqlLog]:
    """The log with the tables beside it; other processes may have them open too."""
    async with open_log(paths.database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log:
        yield log
