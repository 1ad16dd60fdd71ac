"""A log as somebody else will judge it: one snapshot, signed up to its end.

The snapshot is a read transaction in a thread of its own, so that a long export
takes nothing from other readers, and one that is given up is cleaned up in order.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine

from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.store.blobs import BlobMissing, Blobs
from hutch.store.chain import Record
from hutch.store.database import plain_errors
from hutch.store.defects import VOUCHING, find_defects
from hutch.store.records import read_head, read_public_keys, read_records, read_statements
from hutch.store.seam import ErasedMeanwhile, Evidence

PAGE_EVENTS = 500

T = TypeVar("T")


class View:
    """A read transaction and the thread it lives in."""

    def __init__(self, engine: Engine, path: Path, blobs: Blobs, session_id: SessionId) -> None:
        self._engine = engine
        self._path = path
        self._blobs = blobs
        self._session_id = session_id
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-evidence")
        self._connection: Connection | None = None

    async def open(self) -> Evidence:
        return await self._run(self._open)

    async def close(self) -> None:
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, do: Callable[[], T]) -> T:
        def run() -> T:
            with plain_errors(self._path):
                return do()

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> Evidence:
        connection = self._connection = self._engine.connect()
        connection.exec_driver_sql("BEGIN")  # whatever is written or erased from now on is not seen
        head = read_head(connection, self._session_id)
        statements = read_statements(connection, self._session_id)
        # Events may have come since the head was signed for this: they are for the next export.
        defects = find_defects(connection, self._session_id)
        if defects:  # all that is left, as evidence of what is not
            seq = max(head.seq, *(one.seq for one in statements), 0)
            records = self._records(seq)
            return Evidence(head, records, statements, read_public_keys(connection), defects)
        signed = max((one for one in statements if one.kind in VOUCHING), key=lambda one: one.seq)
        until = replace(head, seq=signed.seq, hash=signed.hash, ended=head.ended and signed.seq == head.seq)
        return Evidence(
            until,
            self._records(signed.seq),
            [one for one in statements if one.seq <= signed.seq],
            read_public_keys(connection),
        )

    async def _records(self, until: int) -> AsyncGenerator[Record]:
        after = 0

        def page() -> list[Record]:
            assert self._connection
            limit = min(PAGE_EVENTS, until - after)
            return read_records(self._connection, self._blobs, self._session_id, after, limit)[0]

        while after < until:
            try:
                records = await self._run(page)
            except EventsMissing as missing:
                after = missing.last
                continue
            except BlobMissing as missing:
                raise ErasedMeanwhile(f"{missing} If it was erased just now, export again.") from None
            for record in records:
                yield record
            after = records[-1].seq

    def _close(self) -> None:
        if self._connection:
            self._connection.exec_driver_sql("ROLLBACK")
            self._connection.close()


@asynccontextmanager
async def open_evidence(
    engine: Engine, path: Path, blobs: Blobs, session_id: SessionId
) -> AsyncIterator[Evidence]:
    """The evidence of a session whose head has just been signed."""
    view = View(engine, path, blobs, session_id)
    try:
        yield await view.open()
    finally:
        await asyncio.shield(asyncio.ensure_future(view.close()))
