"""The event log of an installation, and what is made of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from hutch.settings.paths import Paths
from hutch.store.bound import DEFAULT_LOG_BYTES
from hutch.store.bundle import write_bundle
from hutch.store.database import open_database
from hutch.store.defects import NO_END
from hutch.store.defects import damaged as damaged_log
from hutch.store.lock import hold
from hutch.store.log import open_log
from hutch.store.rows import Rows
from hutch.store.seam import ErasedMeanwhile, EventLog, Evidence, Head
from hutch.store.sessions import Sessions


class OwnLog(EventLog, Rows, Protocol):
    """The log with the tables beside it."""


@asynccontextmanager
async def event_log(paths: Paths, *, log_bytes: int = DEFAULT_LOG_BYTES) -> AsyncIterator[OwnLog]:
    """The installation's event log; other processes may have it open too."""
    async with open_log(paths.database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log:
        yield log


def begin_anew(paths: Paths) -> None:
    """Make an empty database where an installation has lost its own; its keys and blobs stay."""
    open_database(paths.database, begin_anew=True).dispose()


async def missing_end(log: OwnLog, head: Head) -> list[str]:
    """A sentence when the row of a session says that it has ended and its log does not, else nothing.

    The log of a run without a server has no such row.
    """
    try:
        session = await Sessions(log).get(head.session_id)
    except NotFound:
        return []
    return [NO_END] if session.state == "ended" and not head.ended else []


@contextmanager
def only_server(paths: Paths) -> Iterator[None]:
    """Refuse to be the second server on one data directory."""
    with hold(paths.server_lock, holder="Hutch server"):
        yield


async def export(
    log: EventLog, session_id: SessionId, path: Path, *, overwrite: bool, damaged: bool = False
) -> Evidence:
    """Write the record of a session to a file that a stranger can verify.

    A log that parts are missing from is refused, unless `damaged`: then what is left is written.
    """
    try:
        return await _export(log, session_id, path, overwrite=overwrite, damaged=damaged)
    except ErasedMeanwhile:
        return await _export(log, session_id, path, overwrite=overwrite, damaged=damaged)


async def _export(
    log: EventLog, session_id: SessionId, path: Path, *, overwrite: bool, damaged: bool
) -> Evidence:
    async with log.evidence(session_id) as evidence:
        if evidence.defects and not damaged:
            raise damaged_log(session_id, evidence.defects)
        await write_bundle(
            path,
            session_id=session_id,
            records=evidence.records,
            statements=evidence.statements,
            public_keys=evidence.public_keys,
            overwrite=overwrite,
        )
        return evidence
