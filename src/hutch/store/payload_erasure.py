"""Erases payloads and keeps the hash chain.

The salt is erased with the payload, so the remaining hash reveals nothing about it.
A signed statement records what was erased, when and why: a record with a missing
payload is damaged, a record with an erased one is not.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from hutch.store.large_payload_files import Blobs
from hutch.store.log_write_sql import LogState, Transaction
from hutch.store.schema import events
from hutch.store.signed_log_head_statements import Signer

CHUNK_EVENTS = 1000


def chunks(seqs: Collection[int]) -> list[Sequence[int]]:
    """Sorted sequence numbers in chunks, so that a long erasure does not block writers."""
    ordered = sorted(seqs)
    return [ordered[start : start + CHUNK_EVENTS] for start in range(0, len(ordered), CHUNK_EVENTS)]


def erase_payloads(
    transaction: Transaction, signer: Signer, log: LogState, seqs: Sequence[int], reason: str
) -> int:
    """Erase the payloads of these events; returns how many still existed."""
    requested = set(seqs)
    found = [row for row in transaction.payloads(log.id, seqs[0], seqs[-1]) if row[0] in requested]
    for seq, payload_hash, in_blob in found:
        transaction.add_statement(log.id, signer.sign("erasure", log.session_id, seq, payload_hash, reason))
        transaction.erase_payload(log.id, seq)
        if in_blob:
            transaction.doom_blob(payload_hash)
    return len(found)


def delete_pending_blobs(transaction: Transaction, blobs: Blobs) -> None:
    """Delete the blobs of erased payloads, including those that a crash left behind."""
    for name in transaction.blob_deletions():
        blobs.delete(name)
        transaction.forget_blob(name)


def collect_blobs(connection: Connection, blobs: Blobs) -> int:
    """Delete blobs that no event refers to, because their commit failed; returns how many."""
    in_blobs = select(events.c.payload_hash).where(events.c.payload.is_(None), events.c.salt.is_not(None))
    named = set(connection.scalars(in_blobs))
    return blobs.delete_old(lambda name: name not in named)
