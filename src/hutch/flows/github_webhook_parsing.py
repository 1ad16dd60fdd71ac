"""Parses GitHub's webhook events into requests.

The signature proves that an event comes from GitHub; the texts in it are by users and untrusted.
This module does not decide whether a user may make a request: the forge is asked for that.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from hutch.domain.errors import HutchError
from hutch.domain.request_from_forge import ForgeRequest
from hutch.forge.posted_text_escaping import has_own_marker
from hutch.forge.repo_url import parse_repo_url

LABEL = "hutch"
MAX_CHARS = 50_000  # of one text
HUNK_CHARS = 4000
SIGNATURE = "sha256="

# These patterns do not backtrack: unauthenticated users decide how long a text is.
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n`]*+\n.*?(?:^ {0,3}\1[`~]*+[ \t]*+$|\Z)", re.M | re.S)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_QUOTED = re.compile(r"^ {0,3}>.*(?:\n(?![ \t]*$| {0,3}>).+)*", re.M)
_INDENTED = re.compile(r"(?:\A|(?<=\n)[ \t]*\n)(?:(?: {4}|\t).*(?:\n|\Z))+")
_TICKS = re.compile(r"`+")


def is_signed(secret: str, body: bytes, header: str) -> bool:
    """True if GitHub, which shares the secret, sent exactly these bytes. Takes constant time."""
    wanted = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = header.removeprefix(SIGNATURE) if header.startswith(SIGNATURE) else ""
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))


def mentions(text: str, name: str) -> bool:
    """True if a text mentions a name, outside of code, quotes and hidden parts."""
    text = text.replace("\r\n", "\n")
    for part in (_FENCE, _COMMENT, _QUOTED, _INDENTED):
        text = part.sub("\n\n", text)
    called = rf"(?<![\w@/.`-])@{re.escape(name)}(?![\w-]|\.\w|/)"
    return re.search(called, _without_code(text), re.I) is not None


def _without_code(text: str) -> str:
    """The text without spans between equal numbers of backticks; in one pass, however many there are."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text)]
    waiting: dict[int, list[int]] = {}  # by length, the later ones, the nearest last
    for place in range(len(runs) - 1, -1, -1):
        waiting.setdefault(runs[place][1] - runs[place][0], []).append(place)
    kept, at, place = [], 0, 0
    while place < len(runs):
        start, end = runs[place]
        later = waiting[end - start]
        while later and later[-1] <= place:
            later.pop()
        if later:
            kept.append(text[at:start])
            place = later[-1]
            at = runs[place][1]
        place += 1
    return " ".join([*kept, text[at:]])


def to_forge_request(event: str, payload: Any, *, mention: str, hosts: tuple[str, ...]) -> ForgeRequest | str:
    """The request of an event, or why there is none."""
    if not isinstance(payload, dict):
        return "It is not an event."
    found = _read_request(event, payload, mention, hosts)
    if isinstance(found, ForgeRequest) and (
        not found.number or (found.kind == "line_comment" and not found.comment_id)
    ):
        return "It has no number of an issue, pull request or comment."
    return found


def _read_request(
    event: str, payload: Mapping[str, Any], mention: str, hosts: tuple[str, ...]
) -> ForgeRequest | str:
    action, sender = _text(payload, "action"), _text(payload, "sender", "login")
    if not sender or _text(payload, "sender", "type") == "Bot":
        return "It was sent by a program."
    repository = _repository(payload, hosts)
    if repository is None:
        return "It names no repository that Hutch can work on."
    common: dict[str, Any] = {"repository": repository, "by": sender}
    match event, action:
        case "issues", "labeled" if _text(payload, "label", "name").lower() == LABEL:
            return _issue(payload, common)
        case "issues", "assigned" if _is_me(_text(payload, "assignee", "login"), mention):
            return _issue(payload, common)
        case ("issue_comment", "created"):
            return _comment(payload, common, mention)
        case ("pull_request_review_comment", "created"):
            return _line_comment(payload, common, mention)
        case ("pull_request_review", "submitted"):
            return _review(payload, common, mention)
    return "It requests nothing."


def _issue(payload: Mapping[str, Any], common: dict[str, Any]) -> ForgeRequest | str:
    if _text(payload, "issue", "state") != "open":
        return "The issue is closed."
    return ForgeRequest(
        kind="issue", url=_text(payload, "issue", "html_url"), **common, **_thread(payload, "issue")
    )


def _comment(payload: Mapping[str, Any], common: dict[str, Any], mention: str) -> ForgeRequest | str:
    text = _text(payload, "comment", "body")
    if has_own_marker(text) or not mentions(text, mention):
        return "It does not mention Hutch."
    if _text(payload, "comment", "user", "login") != common["by"]:
        return "Somebody else wrote it."
    about: dict[str, Any] = {"text": text, "mentioned": True, "url": _text(payload, "comment", "html_url")}
    return ForgeRequest(kind="comment", **about, **common, **_thread(payload, "issue"))


def _line_comment(payload: Mapping[str, Any], common: dict[str, Any], mention: str) -> ForgeRequest | str:
    comment = payload.get("comment")
    text = _text(payload, "comment", "body")
    mentioned = mentions(text, mention)
    if has_own_marker(text) or not isinstance(comment, dict):
        return "It does not mention Hutch."
    if not mentioned and comment.get("in_reply_to_id"):
        return "It is a reply to another user."
    if _text(payload, "comment", "user", "login") != common["by"]:
        return "Somebody else wrote it."
    return ForgeRequest(
        kind="line_comment",
        url=_text(payload, "comment", "html_url"),
        text=text,
        mentioned=mentioned,
        comment_id=_number(comment, "id"),
        path=_text(payload, "comment", "path"),
        line=_number(comment, "line") or _number(comment, "original_line"),
        hunk=_text(payload, "comment", "diff_hunk")[-HUNK_CHARS:],
        **common,
        **_thread(payload, "pull_request"),
    )


def _review(payload: Mapping[str, Any], common: dict[str, Any], mention: str) -> ForgeRequest | str:
    text = _text(payload, "review", "body")
    mentioned = mentions(text, mention)
    if has_own_marker(text) or not text.strip():
        return "It has no text."
    if not mentioned and _text(payload, "review", "state") != "changes_requested":
        return "It does not mention Hutch."
    about: dict[str, Any] = {
        "text": text,
        "mentioned": mentioned,
        "url": _text(payload, "review", "html_url"),
    }
    return ForgeRequest(kind="review", **about, **common, **_thread(payload, "pull_request"))


def _thread(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = payload.get(name)
    found = found if isinstance(found, dict) else {}
    return {
        "number": _number(found, "number"),
        "title": _text(payload, name, "title"),
        "body": _text(payload, name, "body"),
        "author": _text(payload, name, "user", "login"),
        "on_pull": name == "pull_request" or isinstance(found.get("pull_request"), dict),
    }


def _repository(payload: Mapping[str, Any], hosts: tuple[str, ...]) -> str | None:
    """The address of the repository, if its host is configured and its name matches the address."""
    address = _text(payload, "repository", "clone_url")
    try:
        url = parse_repo_url(address)
    except HutchError:
        return None
    if (
        url.slug is None
        or url.authority not in hosts
        or url.transport not in ("https", "http")
        or url.credentials
    ):
        return None
    return (
        address if "/".join(url.slug).lower() == _text(payload, "repository", "full_name").lower() else None
    )


def _is_me(login: str, mention: str) -> bool:
    return login.lower() in (mention.lower(), f"{mention.lower()}[bot]")


def _text(payload: Any, *path: str) -> str:
    for name in path:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return payload[:MAX_CHARS] if isinstance(payload, str) else ""


def _number(payload: Mapping[str, Any], name: str) -> int:
    found = payload.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**63 else 0
