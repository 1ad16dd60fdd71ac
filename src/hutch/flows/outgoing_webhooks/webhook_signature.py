"""Signatures of webhooks, by the Standard Webhooks specification: receivers have libraries that check them.

The signature covers the message's id, the time of the attempt, and the body. A receiver refuses old times, so
that a recorded request cannot be repeated later, and ids that it has seen.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(id: str, at_s: int, body: bytes, secrets_: Sequence[str]) -> dict[str, str]:
    """The headers of one attempt, with a signature by each secret."""
    signed = b"%s.%d.%s" % (id.encode(), at_s, body)
    signatures = [hmac.new(_key(each), signed, hashlib.sha256).digest() for each in secrets_]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(each).decode()}" for each in signatures),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX))
