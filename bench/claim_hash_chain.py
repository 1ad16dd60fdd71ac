"""Linking and signing, without a database."""

import time
from collections.abc import Iterator

from bench.result_row import Row
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hutch.domain.events import MessageSent, to_json
from hutch.store.hash_chain import GENESIS, hash_payload, link, new_salts
from hutch.store.signed_log_head_statements import Signer

EVENTS = 100_000


def measure() -> Iterator[Row]:
    signer = Signer(Ed25519PrivateKey.generate())
    event = MessageSent(author="agent", text="a line of output, as long as such lines are " * 5)
    session_id, prev = "ses_01jd2m4c9k7w6t0q8n5x3vbaeh", GENESIS
    started = time.perf_counter()
    for start in range(0, EVENTS, 64):
        for seq, salt in enumerate(new_salts(64), start + 1):
            prev = link(session_id, seq, 1794741507906, event.type, hash_payload(salt, to_json(event)), prev)
        signer.sign("checkpoint", session_id, start + 64, prev)
    yield Row(
        "chain, and sign every 64",
        EVENTS / (time.perf_counter() - started),
        None,
        "/s",
        20_000,
        at_least=True,
    )
