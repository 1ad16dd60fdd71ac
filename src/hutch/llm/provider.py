"""What the providers have in common: an account, and errors that say what to do."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import httpx2

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.llm.faults import TRANSIENT_STATUSES, Transient
from hutch.llm.names import how_to_set
from hutch.llm.seam import Call

TOO_LONG = ("context_length", "prompt is too long", "too many tokens", "maximum context", "context window")
QUOTA = ("insufficient_quota", "billing", "credit balance", "exceeded your current quota", "spend limit")


@dataclass(frozen=True, slots=True)
class Account:
    """Whom to ask, at which address, with which key."""

    provider: str
    model: str
    key: str
    base_url: str | None = None
    timeout_s: float = 600.0

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.model}"


@asynccontextmanager
async def translated(account: Account, *kinds: type[Exception]) -> AsyncIterator[None]:
    """Errors of a client library as errors of this house, or as something that may work the next time."""
    try:
        yield
    except kinds as error:
        raise _translated(account, error) from error
    except (httpx2.TransportError, ConnectionError, TimeoutError) as error:
        raise Transient(f"the connection broke ({_words(error)})") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Transient(f"the stream held something that is not JSON ({error})") from error


def _translated(account: Account, error: Exception) -> Exception:
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    status = status if isinstance(status, int) else None
    text = _words(error)
    low = f"{text} {getattr(error, 'body', '')}".lower()
    if any(sign in low for sign in QUOTA):
        return LimitReached(
            f"The account with {account.provider} has no credit left: {text} Top it up there, or choose "
            f"another model with --model.",
            limit=f"{account.provider} quota",
        )
    if any(sign in low for sign in TOO_LONG) and status in (400, 413, None):
        return LimitReached(
            f"The conversation is too long for {account.full_name}: {text} Start anew with a smaller task, "
            f"or choose a model with a larger context.",
            limit="context",
        )
    if status is None or status in TRANSIENT_STATUSES:
        return Transient(text, status=status, retry_after_s=_retry_after_s(error))
    return _refusal(account, status, text)


def _refusal(account: Account, status: int, text: str) -> HutchError:
    match status:
        case 401:
            return Denied(
                f"{account.provider} does not accept the key: {text} {how_to_set(account.provider)}"
            )
        case 403:
            return Denied(f"{account.provider} does not allow this: {text} Look at the rights of your key.")
        case 404:
            return NotFound(f"{account.provider} has no model '{account.model}': {text}")
        case 400 | 413 | 422:
            return BadRequest(f"{account.full_name} refused the request: {text}")
    return Unavailable(f"{account.full_name} answered with status {status}: {text}")


def json_object(call: Call) -> Mapping[str, Any]:
    """A call's arguments as the services want them back; what was no object goes back as text in one."""
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return {"invalid": call.arguments}
    return value if isinstance(value, dict) else {"invalid": call.arguments}


def _retry_after_s(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - time())
            except ValueError:
                return None
    return None


def _words(error: Exception) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return _sentence(inner["message"])
    return _sentence(getattr(error, "message", None) or str(error) or type(error).__name__)


def _sentence(text: str) -> str:
    text = " ".join(text.split())[:500]
    return text if text.endswith((".", "!", "?")) else f"{text}."
