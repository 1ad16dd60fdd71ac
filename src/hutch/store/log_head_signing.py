"""Signs the heads of logs: every 64 events, every 5 seconds, at the end, and on request."""

import time

from hutch.domain.ids import SessionId
from hutch.store.log_write_sql import LogState, Transaction
from hutch.store.signed_log_head_statements import Kind, Signer

CHECKPOINT_EVENTS = 64
CHECKPOINT_INTERVAL_S = 5.0


class Notary:
    """Signs heads inside the writer's transactions, and tracks which are unsigned."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._unsigned_since: dict[SessionId, float] = {}

    def introduce(self, transaction: Transaction) -> None:
        """Store the public key, so that exported records can include it."""
        transaction.add_key(self._signer.fingerprint, self._signer.public_key)

    def sign_if_due(self, transaction: Transaction, log: LogState, *, now: bool = False) -> None:
        """Sign a log to which events were just added, if it has ended, a signature is due, or `now` is set.

        The caller saves the log.
        """
        if log.ended:
            self._sign(transaction, log, "end")
        elif now or log.seq - log.signed_seq >= CHECKPOINT_EVENTS:
            self._sign(transaction, log, "checkpoint")

    def sign_head(self, transaction: Transaction, session_id: SessionId) -> None:
        """Sign a log's head unless it is signed already."""
        log = transaction.log(session_id)
        if log and log.signed_seq < log.seq:
            self._sign(transaction, log, "checkpoint")
            transaction.save_log(log)

    def remember(self, log: LogState) -> None:
        """After a commit, track whether the log is unsigned."""
        if log.signed_seq < log.seq:
            self._unsigned_since.setdefault(log.session_id, time.monotonic())
        else:
            self._unsigned_since.pop(log.session_id, None)

    def due_in_s(self) -> float | None:
        """Seconds until the next signature is due; None if all heads are signed."""
        if not self._unsigned_since:
            return None
        return max(0.0, min(self._unsigned_since.values()) + CHECKPOINT_INTERVAL_S - time.monotonic())

    def due(self, *, everything: bool) -> list[SessionId]:
        before = time.monotonic() - CHECKPOINT_INTERVAL_S
        return [id_ for id_, since in self._unsigned_since.items() if everything or since <= before]

    def signed(self, session_ids: list[SessionId]) -> None:
        for session_id in session_ids:
            self._unsigned_since.pop(session_id, None)

    def postpone(self, session_ids: list[SessionId]) -> None:
        self._unsigned_since.update(dict.fromkeys(session_ids, time.monotonic()))

    def _sign(self, transaction: Transaction, log: LogState, kind: Kind) -> None:
        transaction.add_statement(log.id, self._signer.sign(kind, log.session_id, log.seq, log.hash))
        log.signed_seq = log.seq
