"""When a log's head is signed: every 64 events, every 5 seconds, at its end, and when asked."""

import time

from hutch.domain.ids import SessionId
from hutch.store.signing import Kind, Signer
from hutch.store.transaction import LogState, Transaction

CHECKPOINT_EVENTS = 64
CHECKPOINT_INTERVAL_S = 5.0


class Notary:
    """Signs heads inside the writer's transactions, and remembers which are waiting."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._unsigned_since: dict[SessionId, float] = {}

    def introduce(self, transaction: Transaction) -> None:
        """Make our public key known, so that exported records can carry it."""
        transaction.add_key(self._signer.fingerprint, self._signer.public_key)

    def sign_if_due(self, transaction: Transaction, log: LogState, *, now: bool = False) -> None:
        """Sign a log that has just grown, when it is time or `now`; the caller saves the log."""
        if log.ended:
            self._sign(transaction, log, "end")
        elif now or log.seq - log.signed_seq >= CHECKPOINT_EVENTS:
            self._sign(transaction, log, "checkpoint")

    def sign_head(self, transaction: Transaction, session_id: SessionId) -> None:
        """Vouch for a log's head, unless that is done already."""
        log = transaction.log(session_id)
        if log and log.signed_seq < log.seq:
            self._sign(transaction, log, "checkpoint")
            transaction.save_log(log)

    def remember(self, log: LogState) -> None:
        """After a commit: what is still unsigned will be due."""
        if log.signed_seq < log.seq:
            self._unsigned_since.setdefault(log.session_id, time.monotonic())
        else:
            self._unsigned_since.pop(log.session_id, None)

    def due_in_s(self) -> float | None:
        """How long until a signature is due; None when nothing waits for one."""
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
