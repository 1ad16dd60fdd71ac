"""Requests that reach Hutch through a forge: assigned issues, comments and reviews."""

from typing import Literal

from hutch.system.lazy_dataclass import dataclass

ForgeRequestKind = Literal["issue", "comment", "line_comment", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRequest:
    """An issue assigned to Hutch, or a comment on an issue or a pull request."""

    kind: ForgeRequestKind
    repository: str  # its URL
    number: int  # of the issue or pull request
    url: str  # the page of the issue or comment
    by: str  # the login of the requester
    text: str = ""  # of the comment
    mentioned: bool = False  # whether the text mentions Hutch
    on_pull: bool = False
    title: str = ""  # of the issue or pull request
    body: str = ""
    author: str = ""  # of title and body
    comment_id: int = 0  # of the line comment to reply to
    path: str = ""  # of the line comment
    line: int = 0
    hunk: str = ""
    mark: str = ""  # a random mark by which Hutch finds its own reply


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """A forge request as a webhook delivered it, and its progress."""

    id: str
    digest: str
    at_ms: int
    event: str
    state: Literal["queued", "working", "ended", "ignored"] = "queued"
    request: str  # JSON
    reason: str = ""
    session_id: str = ""
    run_id: str = ""
    input: int = 0
    comment_id: int = 0
    attempts: int = 0
    next_ms: int = 0
