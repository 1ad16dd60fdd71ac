"""What somebody on a forge wants of Hutch."""

from dataclasses import dataclass
from typing import Literal

ForgeRequestKind = Literal["issue", "comment", "line_comment", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRequest:
    """An issue that was handed over, or something that was said below one or about a pull request."""

    kind: ForgeRequestKind
    repository: str  # its address
    number: int  # of the issue or pull request
    url: str  # of what was said, for people
    by: str  # who wants it
    text: str = ""  # what they said
    mentioned: bool = False  # whether they called Hutch by its name
    on_pull: bool = False
    title: str = ""  # of the issue or pull request
    body: str = ""
    author: str = ""  # who wrote these two
    comment_id: int = 0  # on a line, to be answered
    path: str = ""  # and what it is about
    line: int = 0
    hunk: str = ""
    mark: str = ""  # of the answer, which nobody can know before it is there


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """A wish as a forge delivered it, and how far it came."""

    id: str
    digest: str
    at_ms: int
    event: str
    state: Literal["queued", "working", "ended", "ignored"] = "queued"
    wish: str  # JSON
    reason: str = ""
    session_id: str = ""
    run_id: str = ""
    input: int = 0
    comment_id: int = 0
    attempts: int = 0
    next_ms: int = 0
