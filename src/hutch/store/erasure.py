"""Forgetting a payload while keeping the chain.

The salt goes with the payload, so the hash that stays tells nothing about it.
A signed statement says what was erased, when and why: a payload that is simply
missing is a broken record, an erased one is not.
"""

from collections.abc import Collection

from sqlalchemy import Connection, select

from hutch.store.blobs import Blobs
from hutch.store.schema import events
from hutch.store.signing import Signer
from hutch.store.transaction import LogState, Transaction


def erase_payloads(
    transaction: Transaction, signer: Signer, log: LogState, seqs: Collection[int] | None, reason: str
) -> int:
    """Erase the payloads at `seqs`, or all of them; how many were still there."""
    chosen = [row for row in transaction.payloads(log.id) if seqs is None or row[0] in seqs]
    for seq, payload_hash, in_blob in chosen:
        transaction.add_statement(log.id, signer.sign("erasure", log.session_id, seq, payload_hash, reason))
        transaction.erase_payload(log.id, seq)
        if in_blob:
            transaction.doom_blob(payload_hash)
    return len(chosen)


def delete_doomed_blobs(transaction: Transaction, blobs: Blobs) -> None:
    """Delete the blobs of erased payloads; also those that a crash left behind."""
    for name in transaction.doomed_blobs():
        blobs.delete(name)
        transaction.forget_blob(name)


def collect_blobs(connection: Connection, blobs: Blobs) -> int:
    """Delete blobs that no event names: their commit never came. How many there were."""
    in_blobs = select(events.c.payload_hash).where(events.c.payload.is_(None), events.c.salt.is_not(None))
    named = set(connection.scalars(in_blobs))
    orphans = [name for name in blobs.old_names() if name not in named]
    for name in orphans:
        blobs.delete(name)
    return len(orphans)
