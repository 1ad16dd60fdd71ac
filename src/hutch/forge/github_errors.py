"""Translates errors of GitHub into Hutch errors with advice."""

import re
from datetime import UTC, datetime

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.forge.gh_single_host_relay import MISDIRECTED
from hutch.forge.git_errors import token_secret_name

MAX_LINE_CHARS = 300
DEFAULT_RETRY_DELAY_S = 60.0  # for rate limits without a time


class GitHubFailed(Unavailable):
    """A failed request. `error` is the error for users; its class says who can fix it."""

    def __init__(self, status: int | None, message: str, error: HutchError) -> None:
        super().__init__(str(error))
        self.status = status
        self.message = message
        self.error = error
        self.headers: dict[str, str] = {}

    @property
    def is_transient(self) -> bool:
        """True if a retry may succeed."""
        return self.status is None or self.status >= 500


def explain(status: int | None, message: str, host: str) -> GitHubFailed:
    """The failure for a response, or for a missing one."""
    line = clean_line(message)
    error: HutchError
    if status == 401 or re.search(r"HTTP 401|[Bb]ad credentials|gh auth login", message):
        error = Denied(
            f"{host} does not accept Hutch's token ({line}). It may have expired: set a new one "
            f"with `hutch config set-secret {token_secret_name(host)}`."
        )
    elif re.search(r"rate limit|HTTP 429|abuse detection|RATE_LIMITED", message) or status == 429:
        error = Unavailable(f"The rate limit of {host} is used up ({line}). Retry later.")
    elif status == 403 or re.search(r"HTTP 403|FORBIDDEN|not accessible by", message):
        error = Denied(f"{host} does not allow this token to do that: {line}. Grant it the permission.")
    elif status == 404 or re.search(r"HTTP 404|Could not resolve to a Repository|NOT_FOUND", message):
        error = NotFound(
            f"There is no such repository on {host}, or this token may not see it: {line}. Check the "
            "address and the permissions of the token."
        )
    elif status == MISDIRECTED:
        error = Unavailable(f"{host} redirects to another host: {line}.")
    elif status in (400, 405, 409, 422) or re.search(r"HTTP 422|already exists|No commits between", message):
        error = Conflict(f"{host} refuses it: {line}.")
    elif status is not None and status < 500:
        error = BadRequest(f"{host} refuses it ({status}): {line}.")
    else:
        error = Unavailable(f"{host} failed: {line}. Retry later.")
    return GitHubFailed(status, message, error)


def rate_limited_until(failed: GitHubFailed, now: float) -> float | None:
    """When to retry after a rate limit; None for other failures. Adds the time to the message."""
    headers = failed.headers
    remaining, reset = headers.get("x-ratelimit-remaining"), headers.get("x-ratelimit-reset", "")
    after = headers.get("retry-after", "")
    limited = failed.status in (403, 429) and (after or remaining == "0" or "rate limit" in failed.message)
    if not limited and failed.status != 429:
        return None
    if after.isdecimal():
        until = now + int(after[:9])
    elif reset.isdecimal() and float(reset[:12]) > now - DEFAULT_RETRY_DELAY_S:  # tolerates clock differences
        until = max(float(reset[:12]), now)
    else:
        until = now + DEFAULT_RETRY_DELAY_S
    at = datetime.fromtimestamp(min(until, now + 31_536_000), UTC).strftime("%Y-%m-%d %H:%M UTC")
    words = f"The rate limit of GitHub is used up until {at}. Deliver again after that."
    failed.error = Unavailable(words)
    failed.args = (words,)
    return until


def clean_line(message: str) -> str:
    """The last lines of untrusted text, made fit for a message."""
    lines = [line for line in message.splitlines() if line.strip()] or ["no reason given"]
    text = re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "?", " ".join(lines[-2:]))[:MAX_LINE_CHARS]
    return re.sub(r"^(gh|GraphQL): *", "", text).strip().rstrip(".")
