"""Translates the errors of providers into errors of Hutch.

Providers report the same error in many ways. Each becomes a `Transient`, which is retried, or
a `HutchError` with a remedy.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from email.utils import parsedate_to_datetime
from time import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.domain.truncation_before_redaction import first_words
from hutch.llm.interface import Delta
from hutch.llm.model_and_key_names import how_to_set, near_names, setting_of_address
from hutch.llm.provider_account import Account
from hutch.llm.provider_http_client import ApiError
from hutch.llm.reply_cost import listed_models
from hutch.llm.reply_limits import Bound
from hutch.llm.transient_error_type import TRANSIENT_STATUSES, Transient
from hutch.system.lazy_dataclass import dataclass

TOO_LONG = re.compile(
    r"context.?(length|window|size|limit)|maximum context|prompt (is )?too long|too many tokens"
    r"|exceeds? the maximum (number of tokens|size)|request_too_large"
)
QUOTA = re.compile(
    r"insufficient.?(quota|balance|credit|funds)|billing_(error|hard_limit)|credit balance|spend.?limit"
    r"|api usage limits|payment required|perday"
)
STATUSES = {  # for errors inside a stream, by the error codes of all providers
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "unavailable": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "authentication_error": 401,
    "unauthenticated": 401,
    "api_key_invalid": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "not_found": 404,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "request_too_large": 413,
}
LOCAL = {"localhost", "127.0.0.1", "::1"}
MAX_CHARS = 500
NAMES_TIMEOUT_S = 5.0  # for a provider's list of models
Names = Callable[[], Awaitable[list[str]]]
# Responses are not validated, so invalid data raises one of these where it is used.
INVALID_DATA = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """The details of an error that a server reported."""

    text: str
    status: int | None = None
    words: str = ""  # all texts of the error in lower case, for searching
    retry_after_s: float | None = None


@asynccontextmanager
async def translate_errors(account: Account, *, names: Names) -> AsyncIterator[None]:
    """Raise errors of a server or a connection as errors of Hutch, or as `Transient`."""
    try:
        yield
    except ApiError as error:
        meaning = explain_error(account, _read_details(account, error))
        if isinstance(meaning, NotFound):
            meaning = NotFound(f"{meaning} {await _near(account, names)}".strip())
        raise meaning from error
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise _broken(account, error) from error
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"The conversation has characters that cannot be sent ({error.reason}). Start a new session "
            f"without them."
        ) from error


async def check_deltas(deltas: AsyncGenerator[Delta]) -> AsyncGenerator[Delta]:
    """The deltas of a stream, bounded in size, and a `Transient` for invalid data in it."""
    async with aclosing(deltas):
        bound = Bound()
        try:
            async for delta in deltas:
                bound.add(delta)
                yield delta
        except INVALID_DATA as error:
            reason = f"{type(error).__name__}: {_sentence(str(error), 100).rstrip('.')}"
            raise Transient(f"the stream held invalid data ({reason})") from error


def explain_error(account: Account, details: ErrorDetails) -> Exception:
    """A `Transient` when a retry may help, else an error with a remedy."""
    provider, text, status = account.provider, details.text, details.status
    if status == 402 or QUOTA.search(details.words):
        return LimitReached(
            f"The account with {provider} has no credit left: {text} Add credit, or choose another model.",
            limit=f"{provider} quota",
        )
    if status == 413 or (status in (400, 422, 500, None) and TOO_LONG.search(details.words)):
        return LimitReached(
            f"The conversation is too long for {account.full_name}: {text} Start again with a smaller task, "
            f"or choose a model with a larger context.",
            limit="context",
        )
    if status is None or status in TRANSIENT_STATUSES:
        return Transient(text, status=status, retry_after_s=details.retry_after_s)
    return _refusal(account, status, text)


def _refusal(account: Account, status: int, text: str) -> HutchError:
    match status:
        case 401 if not account.key:
            return Denied(f"{account.provider} requires a key: {text} {how_to_set(account.provider)}")
        case 401 if account.key_source:
            source = account.key_source
            return Denied(f"{account.provider} does not accept the key {source.name}: {text} {source.remedy}")
        case 401:
            return Denied(
                f"{account.provider} does not accept the key: {text} {how_to_set(account.provider)}"
            )
        case 403:
            return Denied(
                f"{account.provider} does not allow this: {text} Check the permissions of the key"
                f"{f' {account.key_source.name}' if account.key_source else ''}."
            )
        case 404:
            return NotFound(f"{account.provider} has no model '{account.model}': {text}")
        case 400 | 422:
            return BadRequest(f"{account.full_name} refused the request: {text}")
    return Unavailable(
        f"{account.full_name} answered with status {status}: {text} "
        f"Check {setting_of_address(account.provider)}, which is {account.base_url}."
    )


async def _near(account: Account, names: Names) -> str:
    """A hint at similar models, from the provider or else from the price list."""
    try:
        async with asyncio.timeout(NAMES_TIMEOUT_S):
            known = [name.removeprefix("models/") for name in await names()]
    except (ApiError, HutchError, httpx2.HTTPError, OSError, *INVALID_DATA):
        known = await asyncio.to_thread(listed_models, account.provider)
    found = near_names(account.model, known)
    if account.provider == "ollama":
        have = f"It has {', '.join(found)}. " if found else ""
        return f"{have}Download it with `ollama pull {account.model}`, or choose another."
    if found:
        return f"Did you mean {' or '.join(f'{account.provider}:{name}' for name in found)}?"
    if not known:
        where = setting_of_address(account.provider)
        return f"There is no list of models either: check {where}, which is {account.base_url}."
    return "Choose another."


def _broken(account: Account, error: Exception) -> Exception:
    """The error for a connection that failed or broke."""
    causes, where = list(_causes(error)), setting_of_address(account.provider)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes) and _is_local(account):
        start = " Start it with `ollama serve`" if account.provider == "ollama" else " Start it"
        return Unavailable(
            f"Nothing listens at {account.base_url}. Is the server running?{start}, or set {where} to its "
            f"address."
        )
    connecting = any(isinstance(cause, httpx2.ConnectError) for cause in causes)
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if connecting and tls:
        return Unavailable(
            f"No secure connection to {account.base_url}: {_sentence(tls.reason or str(tls))} Check {where}: "
            f"a server without TLS has an address with http, and one with a self-signed certificate "
            f"needs SSL_CERT_FILE."
        )
    if any(isinstance(cause, httpx2.TimeoutException) for cause in causes):
        return Transient(f"{account.base_url} took too long")
    reason = next((str(cause) for cause in causes if str(cause) and cause is not error), str(error))
    return Transient(f"the connection broke ({_sentence(reason, 200).rstrip('.')})")


def _is_local(account: Account) -> bool:
    return urlsplit(account.base_url).hostname in LOCAL


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _read_details(account: Account, error: ApiError) -> ErrorDetails:
    inner = _inner(error.body)
    kinds = [str(detail.get("reason") or "").lower() for detail in _details(inner)]
    kinds += [str(inner.get(name) or "").lower() for name in ("code", "type", "status")]
    status = error.status
    named = next((STATUSES[kind] for kind in kinds if kind in STATUSES), None)
    if status is None:  # inside a stream with status 200
        status = named or next((int(kind) for kind in kinds if re.fullmatch(r"[45]\d\d", kind)), None)
    elif status == 400 and named == 401:
        status = 401
    text = inner.get("message") or error.body or f"It answered {status} without a message."
    shown = _sentence(account.without_key(str(text)))
    words = f"{inner or text} {' '.join(kinds)}".lower()
    return ErrorDetails(shown, status, words, _retry_after_s(error, inner))


def _inner(body: object) -> Mapping[str, Any]:
    """The error inside a body; many servers wrap it once or twice."""
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error", body) if isinstance(body, dict) else {}
    return inner if isinstance(inner, dict) else {"message": str(inner)}


def _details(inner: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = inner.get("details")
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _retry_after_s(error: ApiError, inner: Mapping[str, Any]) -> float | None:
    """How long the server asks to wait: by a header, a field or its message."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (value := error.headers.get(name)) and (found := _seconds(value, unit)) is not None:
            return found
    for detail in _details(inner):
        if delay := re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", ""))):
            return float(delay[1])
    if words := re.search(r"try again in (\d+(?:\.\d+)?) ?(ms|s)\b", str(inner.get("message", ""))):
        return float(words[1]) * (0.001 if words[2] == "ms" else 1.0)
    return None


def _seconds(value: str, unit: float) -> float | None:
    try:
        return max(0.0, float(value) * unit)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except (ValueError, OverflowError):
        return None


def _sentence(text: str, max_chars: int = MAX_CHARS) -> str:
    if re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):  # an error page of a proxy
        found = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = found[1] if found else "it sent a web page"
    text = first_words(" ".join(text.split()), max_chars)
    return text if text.endswith((".", "!", "?")) else f"{text}."
