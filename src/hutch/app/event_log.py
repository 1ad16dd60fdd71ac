"""The event log of an installation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.settings.installation_paths import Paths
from hutch.store.event_log import SqlLog, open_log
from hutch.store.log_size_limit import DEFAULT_LOG_BYTES


@asynccontextmanager
async def event_log(paths: Paths, *, log_bytes: int = DEFAULT_LOG_BYTES) -> AsyncIterator[SqlLog]:
    """Open the log and its tables; other processes may have them open too."""
    async with open_log(paths.database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log:
        yield log
