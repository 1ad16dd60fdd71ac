"""What GitHub's answers say, read with care: what is not said, or is of another kind, is not there."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hutch.domain.errors import Unavailable
from hutch.forge.github_types import Posted, PullRequest, PullState


def at(told: Any, *names: str) -> Any:
    """What is told there; None when nothing is."""
    for name in names:
        told = told.get(name) if isinstance(told, dict) else None
    return told


def text(told: Any, *names: str) -> str:
    found = at(told, *names)
    return found if isinstance(found, str) else ""


def need(told: Any, *names: str) -> str:
    if found := text(told, *names):
        return found
    raise _lacks(names)


def number_of(told: Any, name: str) -> int:
    found = at(told, name)
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found
    raise _lacks((name,))


def _lacks(names: tuple[str, ...]) -> Unavailable:
    return Unavailable(f"GitHub's answer does not say {'.'.join(names)}. Try again later.")


def default_branch(about: Mapping[str, Any]) -> str:
    return text(about, "default_branch") or "main"


def address(told: Any, host: str) -> str:
    """A page for people to visit, on this host; else none: it stands in messages, and things are found by
    it."""
    found = text(told, "html_url")
    if not found.isascii() or not found.isprintable() or " " in found:
        return ""
    try:
        parts, own = urlsplit(found), urlsplit(f"//{host}")
    except ValueError:
        return ""
    fits = parts.scheme in ("http", "https") and parts.hostname == own.hostname and "@" not in parts.netloc
    return found if fits else ""


def posted(told: Mapping[str, Any], host: str) -> Posted:
    return Posted(number_of(told, "id"), address(told, host))


def pull_of(told: Mapping[str, Any], host: str) -> PullRequest:
    is_open = need(told, "state") == "open"
    state: PullState = "merged" if told.get("merged_at") else "open" if is_open else "closed"
    return PullRequest(
        number=number_of(told, "number"),
        url=address(told, host),
        title=text(told, "title"),
        body=text(told, "body"),
        state=state,
        draft=told.get("draft") is True,
        author=text(told, "user", "login"),
        base=need(told, "base", "ref"),
        base_commit=text(told, "base", "sha"),
        branch=need(told, "head", "ref"),
        head_owner=text(told, "head", "user", "login"),
        commit=text(told, "head", "sha"),
        head_repository=text(told, "head", "repo", "full_name"),
        merged_commit=text(told, "merge_commit_sha") if state == "merged" else "",
    )
