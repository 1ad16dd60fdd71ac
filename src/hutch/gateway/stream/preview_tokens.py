"""A preview token lets a browser see one port of one session, and nothing else.

It is signed with a key of this process, so it is invalid after a restart. It names the
credential of its user and does not contain it; the credential is checked on every use.
"""

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, cast

import orjson

from hutch.system.lazy_dataclass import dataclass

ENTRY_LIFE_S = 60  # to follow a redirect
STAY_S = 8 * 3600
MAX_SPENT = 10_000
MAX_TOKEN_CHARS = 1000


@dataclass(frozen=True, slots=True)
class PreviewToken:
    """The user, the port, and the end of validity."""

    session_id: str
    port: int
    user_id: str
    by: Literal["token", "cookie"]
    credential_id: str
    kind: Literal["enter", "stay"]
    until: float  # by the clock of `PreviewTokens`
    nonce: str


class PreviewTokens:
    """Issues and verifies preview tokens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # Not the wall clock: setting it back would revive used tokens that were forgotten.
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._spent: OrderedDict[str, float] = OrderedDict()

    def enter(self, session_id: str, port: int, user_id: str, by: str, credential_id: str) -> str:
        """A token for one redirect to the preview's own name."""
        token = PreviewToken(
            session_id,
            port,
            user_id,
            cast(Literal["token", "cookie"], by),
            credential_id,
            "enter",
            self._clock() + ENTRY_LIFE_S,
            secrets.token_urlsafe(12),
        )
        return self._signed(token)

    def stay(self, entered: PreviewToken) -> str:
        """The token for the browser's cookie."""
        until, nonce = self._clock() + STAY_S, secrets.token_urlsafe(12)
        return self._signed(
            PreviewToken(
                entered.session_id,
                entered.port,
                entered.user_id,
                entered.by,
                entered.credential_id,
                "stay",
                until,
                nonce,
            )
        )

    def read(
        self, text: str, kind: Literal["enter", "stay"], session_id: str, port: int
    ) -> PreviewToken | None:
        """The token, if it is valid, of this kind, for this port, and not expired."""
        body, _, signature = text.partition(".")
        if len(text) > MAX_TOKEN_CHARS or not hmac.compare_digest(
            self._signature(body).encode(), _bytes(signature)
        ):
            return None
        found = PreviewToken(*orjson.loads(urlsafe_b64decode(body)))
        fits = (found.kind, found.session_id, found.port) == (kind, session_id, port)
        return found if fits and self._clock() < found.until else None

    def spend(self, entered: PreviewToken) -> bool:
        """Mark a token as used. False if it was used before."""
        now = self._clock()
        while self._spent and (next(iter(self._spent.values())) < now or len(self._spent) > MAX_SPENT):
            self._spent.popitem(last=False)
        if entered.nonce in self._spent:
            return False
        self._spent[entered.nonce] = entered.until
        return True

    def _signed(self, token: PreviewToken) -> str:
        fields = [getattr(token, name) for name in PreviewToken.__dataclass_fields__]
        body = urlsafe_b64encode(orjson.dumps(fields)).decode()
        return f"{body}.{self._signature(body)}"

    def _signature(self, body: str) -> str:
        return hmac.new(self._key, _bytes(body), hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
