"""Reads fields of GitHub's JSON responses. A field of the wrong type counts as missing."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hutch.domain.errors import Unavailable
from hutch.forge.github_api_types import Posted, PullRequest, PullState


def get_value(response: Any, *names: str) -> Any:
    """The value at a path of field names; None if it is missing."""
    for name in names:
        response = response.get(name) if isinstance(response, dict) else None
    return response


def get_text(response: Any, *names: str) -> str:
    found = get_value(response, *names)
    return found if isinstance(found, str) else ""


def require_text(response: Any, *names: str) -> str:
    if found := get_text(response, *names):
        return found
    raise _missing(names)


def require_number(response: Any, name: str) -> int:
    found = get_value(response, name)
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found
    raise _missing((name,))


def _missing(names: tuple[str, ...]) -> Unavailable:
    return Unavailable(f"GitHub's response lacks {'.'.join(names)}. Retry later.")


def get_default_branch(about: Mapping[str, Any]) -> str:
    return get_text(about, "default_branch") or "main"


def get_page_url(response: Any, host: str) -> str:
    """The URL of a page on this host; empty for any other.

    It appears in messages and identifies objects, so it must be safe.
    """
    found = get_text(response, "html_url")
    if not found.isascii() or not found.isprintable() or " " in found:
        return ""
    try:
        parts, own = urlsplit(found), urlsplit(f"//{host}")
    except ValueError:
        return ""
    fits = parts.scheme in ("http", "https") and parts.hostname == own.hostname and "@" not in parts.netloc
    return found if fits else ""


def parse_posted(response: Mapping[str, Any], host: str) -> Posted:
    return Posted(require_number(response, "id"), get_page_url(response, host))


def parse_pull_request(response: Mapping[str, Any], host: str) -> PullRequest:
    is_open = require_text(response, "state") == "open"
    state: PullState = "merged" if response.get("merged_at") else "open" if is_open else "closed"
    return PullRequest(
        number=require_number(response, "number"),
        url=get_page_url(response, host),
        title=get_text(response, "title"),
        body=get_text(response, "body"),
        state=state,
        draft=response.get("draft") is True,
        author=get_text(response, "user", "login"),
        base=require_text(response, "base", "ref"),
        base_commit=get_text(response, "base", "sha"),
        branch=require_text(response, "head", "ref"),
        head_owner=get_text(response, "head", "user", "login"),
        commit=get_text(response, "head", "sha"),
        head_repository=get_text(response, "head", "repo", "full_name"),
        merged_commit=get_text(response, "merge_commit_sha") if state == "merged" else "",
    )
