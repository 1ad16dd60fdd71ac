"""A consistent view of a log for third parties, signed up to its end.

The view is a read transaction in its own thread, so a long export does not slow
other readers, and a cancelled one is cleaned up. Payloads that the reader may not
see are omitted: to a verifier that looks like an erasure, whose signed reason says
that the payload was withheld from this copy.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection, func, select

from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, audience_in
from hutch.store.event_log_interface import ErasedMeanwhile, Evidence
from hutch.store.hash_chain import Record
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.log_damage_check import HEAD_STATEMENT_KINDS, find_defects
from hutch.store.log_reader import log_and_newest, read_head, read_public_keys, read_records, read_statements
from hutch.store.open_database import OpenDatabase
from hutch.store.schema import events
from hutch.store.signed_log_head_statements import Signer, Statement

PAGE_EVENTS = 500
WITHHELD = "Withheld from this copy of the record: its reader may not see it."

T = TypeVar("T")


class EvidenceView:
    """A read transaction and the thread it lives in."""

    def __init__(
        self, database: OpenDatabase, blobs: Blobs, session_id: SessionId, reader: Reader, signer: Signer
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._session_id = session_id
        self._reader = reader
        self._signer = signer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-evidence")
        self._connection: Connection | None = None
        self._withheld: frozenset[int] = frozenset()

    async def __aenter__(self) -> Evidence:
        """The evidence of a session whose head has just been signed."""
        try:
            return await self._run(self._open)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, do: Callable[[], T]) -> T:
        def run() -> T:
            with self._database.translate_errors():
                return do()

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> Evidence:
        connection = self._connection = self._database.engine.connect()
        connection.exec_driver_sql(self._database.begin_snapshot)  # later writes and erasures are invisible
        head = read_head(connection, self._session_id)
        statements = read_statements(connection, self._session_id)
        # Events appended since the head was signed belong to the next export.
        defects = find_defects(connection, self._session_id)
        if defects:  # export everything that remains, as evidence of what is missing
            seq = max(head.seq, *(one.seq for one in statements), 0)
            withheld = self._withhold(connection, seq)
            records = self._records(seq)
            return Evidence(head, records, [*statements, *withheld], self._keys(connection), defects)
        signed = max((one for one in statements if one.kind in HEAD_STATEMENT_KINDS), key=lambda one: one.seq)
        until = replace(head, seq=signed.seq, hash=signed.hash, ended=head.ended and signed.seq == head.seq)
        withheld = self._withhold(connection, signed.seq)
        return Evidence(
            until,
            self._records(signed.seq),
            [*(one for one in statements if one.seq <= signed.seq), *withheld],
            self._keys(connection),
        )

    def _keys(self, connection: Connection) -> dict[str, bytes]:
        own = {self._signer.fingerprint: self._signer.public_key} if self._withheld else {}
        return {**read_public_keys(connection), **own}

    def _withhold(self, connection: Connection, until: int) -> list[Statement]:
        """Find the payloads that this reader may not see, and sign that they are withheld."""
        if self._reader.whole:
            return []
        log_id, _ = log_and_newest(connection, self._session_id)
        named = events.c.payload.is_(None) | (func.instr(events.c.payload, b'"audience"') > 0)
        here = (events.c.log_id == log_id, events.c.seq <= until, events.c.salt.is_not(None), named)
        query = select(events.c.seq, events.c.payload_hash, events.c.payload).where(*here)
        found: dict[int, str] = {}
        for row in connection.execute(query.execution_options(yield_per=PAGE_EVENTS)):
            try:
                payload = row.payload if row.payload is not None else self._blobs.get(row.payload_hash)
            except BlobMissing as missing:
                raise _erased_meanwhile(missing) from None
            if not self._reader.may_see(audience_in(payload)):
                found[row.seq] = row.payload_hash
        self._withheld = frozenset(found)
        sign = self._signer.sign
        return [sign("erasure", self._session_id, seq, hash_, WITHHELD) for seq, hash_ in found.items()]

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
                raise _erased_meanwhile(missing) from None
            for record in records:
                is_withheld = record.seq in self._withheld
                yield replace(record, salt=None, payload=None) if is_withheld else record
            after = records[-1].seq

    def _close(self) -> None:
        if self._connection:
            self._connection.exec_driver_sql("ROLLBACK")
            self._connection.close()


def _erased_meanwhile(missing: BlobMissing) -> ErasedMeanwhile:
    return ErasedMeanwhile(f"{missing} If it was erased just now, export again.")
