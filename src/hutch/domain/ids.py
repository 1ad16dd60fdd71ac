"""Ids that sort by age and say what they name: `ses_01jd2m4c9k7w6t0q8n5x3vbaeh`.

A prefix, then 48 bits of milliseconds and 80 random bits in Crockford's base 32.
Ids made by one process rise strictly, also within a millisecond and when the
clock goes back; and above those that its database holds, when it was restarted
after the clock went back.
"""

import os
import re
import threading
from collections.abc import Iterable, Sequence
from typing import NewType
from uuid import UUID

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.system.clock_without_jumps import wall_ms

SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
InputId = NewType("InputId", str)
ChangeId = NewType("ChangeId", str)
UserId = NewType("UserId", str)
TokenId = NewType("TokenId", str)
BrowserId = NewType("BrowserId", str)
LinkId = NewType("LinkId", str)
CommentId = NewType("CommentId", str)
ReviewId = NewType("ReviewId", str)
TestRunId = NewType("TestRunId", str)
TaskId = NewType("TaskId", str)
AnnotationId = NewType("AnnotationId", str)
BudgetId = NewType("BudgetId", str)
WebhookId = NewType("WebhookId", str)
WebhookMessageId = NewType("WebhookMessageId", str)
AssignmentId = NewType("AssignmentId", str)

PREFIXES = {
    "ses": "session",
    "run": "run",
    "inp": "input",
    "chg": "change",
    "usr": "user",
    "tok": "token",
    "brw": "browser session",
    "lnk": "one-time link",
    "cmt": "comment",
    "rvw": "review",
    "tst": "test run",
    "tsk": "task",
    "ann": "annotation",
    "bud": "budget",
    "whk": "webhook",
    "whm": "webhook message",
    "asg": "assignment",
}

MIN_PART_CHARS = 3  # shorter parts of an id are refused
MAX_LISTED = 3  # matching ids in an error

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
ID_PATTERN = "[a-z]{3}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}"
_SHAPE = re.compile(r"(?P<prefix>[a-z]{3})_[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}")
_PART = re.compile(r"(?:[a-z]{3}_)?[0-9a-z]{0,26}")
_lock = threading.Lock()
_last = 0


def _next() -> int:
    """A 128-bit number above every one handed out before."""
    global _last
    fresh = wall_ms() << 80 | int.from_bytes(os.urandom(10))
    with _lock:
        _last = max(fresh, _last + 1)
        return _last


def is_id(text: str) -> bool:
    """True if a text has the form of an id, with any prefix."""
    return _SHAPE.fullmatch(text) is not None


def ensure_ids_above(id: str) -> None:
    """Make every id from now on greater than this one, which an earlier process has stored."""
    global _last
    if not _SHAPE.fullmatch(id):
        return
    with _lock:
        _last = max(_last, _number(id))


def to_uuid(id: str) -> UUID:
    """The 128 bits of an id as a UUID, for systems that know no other ids."""
    return UUID(int=_number(id))


def _number(id: str) -> int:
    number = 0
    for character in id.partition("_")[2]:
        number = number * 32 + _ALPHABET.index(character)
    return number


def _new(prefix: str) -> str:
    number, digits = _next(), []
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"


def new_session_id() -> SessionId:
    return SessionId(_new("ses"))


def new_run_id() -> RunId:
    return RunId(_new("run"))


def new_input_id() -> InputId:
    return InputId(_new("inp"))


def new_change_id() -> ChangeId:
    return ChangeId(_new("chg"))


def new_user_id() -> UserId:
    return UserId(_new("usr"))


def new_token_id() -> TokenId:
    return TokenId(_new("tok"))


def new_browser_id() -> BrowserId:
    return BrowserId(_new("brw"))


def new_link_id() -> LinkId:
    return LinkId(_new("lnk"))


def new_comment_id() -> CommentId:
    return CommentId(_new("cmt"))


def new_review_id() -> ReviewId:
    return ReviewId(_new("rvw"))


def new_test_run_id() -> TestRunId:
    return TestRunId(_new("tst"))


def new_debug_id() -> str:
    return _new("dbg")


def new_task_id() -> TaskId:
    return TaskId(_new("tsk"))


def new_annotation_id() -> AnnotationId:
    return AnnotationId(_new("ann"))


def new_budget_id() -> BudgetId:
    return BudgetId(_new("bud"))


def new_webhook_id() -> WebhookId:
    return WebhookId(_new("whk"))


def new_webhook_message_id() -> WebhookMessageId:
    return WebhookMessageId(_new("whm"))


def new_assignment_id() -> AssignmentId:
    return AssignmentId(_new("asg"))


def parse_session_id(text: str) -> SessionId:
    """Check an id that came from outside; it is safe in paths and queries afterwards."""
    found = _SHAPE.fullmatch(text)
    if not found or found["prefix"] != "ses":
        raise BadRequest(f"{echo(text, 80)} is not a session id. One looks like {new_session_id()}.")
    return SessionId(text)


def parse_user_id(text: str) -> UserId:
    """The same for the id of a user."""
    found = _SHAPE.fullmatch(text)
    if not found or found["prefix"] != "usr":
        raise BadRequest(f"{echo(text, 80)} is not a user's id. One looks like {new_user_id()}.")
    return UserId(text)


def matches_id(id: str, name: str) -> bool:
    """True if a typed name is this id, or a prefix or suffix of it with enough characters."""
    if id == name:
        return True
    if len(name) < MIN_PART_CHARS or not _PART.fullmatch(name):
        return False
    return id.startswith(name) or id.partition("_")[2].startswith(name) or id.endswith(name)


def resolve_id(ids: Iterable[str], name: str, what: str) -> str | None:
    """The one id that a name matches, or None. Raises BadRequest when it matches several."""
    matching = [id for id in ids if matches_id(id, name)]
    if name in matching:
        return name
    if len(matching) > 1:
        raise ambiguous_id(matching, name, what)
    return matching[0] if matching else None


def ambiguous_id(ids: Sequence[str], name: str, what: str) -> BadRequest:
    """The error for a name that matches several ids."""
    some = ", ".join([*ids[:MAX_LISTED], *(["…"] if len(ids) > MAX_LISTED else [])])
    return BadRequest(f"{echo(name, 80)} matches {len(ids)} {what}: {some}. Give more of the id.")
