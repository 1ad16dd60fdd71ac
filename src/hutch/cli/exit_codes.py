"""The exit codes and their meanings, on which scripts can rely."""

import json
from typing import Any

from hutch.domain.errors import (
    BadRequest,
    DataGone,
    Denied,
    HutchError,
    LimitReached,
    RecordDamaged,
    TooManyRequests,
    Unavailable,
)

OK = 0
BUG = 1
BAD_REQUEST = 2
NO = 3
DENIED = 4
LIMIT_REACHED = 5
UNAVAILABLE = 6
DATA_GONE = DataGone.exit_code
NOT_EXECUTABLE = 126
NOT_FOUND = 127
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    OK: "Success.",
    BUG: "A bug in Hutch. `hutch --debug …` shows where.",
    BAD_REQUEST: "Bad request: wrong usage, an unknown name, or a state that does not allow it.",
    NO: "A check failed: tests fail, a record is damaged or does not verify, `hutch doctor` found a problem.",
    DENIED: "Not allowed; a user with the right to do so must allow it.",
    LIMIT_REACHED: "A limit was reached; raise it or use less.",
    UNAVAILABLE: "Something that Hutch needs is missing or broken.",
    DATA_GONE: "The data directory or the database was removed or replaced while Hutch was using it.",
    NOT_EXECUTABLE: "`hutch shell`: the command exists but cannot be run.",
    NOT_FOUND: "`hutch shell`: there is no such command in the jail.",
    INTERRUPTED: "Interrupted from the keyboard.",
    BROKEN_PIPE: "The reader of the output closed it, as `head` does.",
}

OUTCOMES = {  # of runs
    "done": OK,
    "tests_failing": NO,
    "limit_reached": LIMIT_REACHED,
    "failed": UNAVAILABLE,
    "cancelled": INTERRUPTED,
}


FAMILIES = {  # by the error codes of the server
    "bad_request": BAD_REQUEST,
    "not_found": BAD_REQUEST,
    "conflict": BAD_REQUEST,
    "denied": DENIED,
    "unauthenticated": DENIED,
    "limit_reached": LIMIT_REACHED,
    "too_many_requests": LIMIT_REACHED,
    "unavailable": UNAVAILABLE,
    "record_damaged": NO,
    "stored_secret": DENIED,  # in the work of a run
    "suspected_secret": DENIED,
}


class NotStarted(BadRequest):
    """A command in a jail that could not be started; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def code_of(error: Exception) -> int:
    """The exit code of an error; an unexpected type of error is a bug."""
    match error:
        case NotStarted():
            return error.exit_code
        case BadRequest():
            return BAD_REQUEST
        case Denied():
            return DENIED
        case LimitReached():
            return LIMIT_REACHED
        case DataGone():
            return DATA_GONE
        case RecordDamaged():
            return NO
        case Unavailable() | OSError():  # such as a missing file or a full disk
            return UNAVAILABLE
        case _:
            return BUG


def error_json(error: HutchError) -> str:
    """An error as one line of JSON."""
    fields: dict[str, Any] = {"code": error.code, "detail": str(error)}
    if isinstance(error, LimitReached):
        fields["limit"] = error.limit
    if isinstance(error, TooManyRequests):
        fields["retry_after_s"] = error.retry_after_s
    return json.dumps({"error": fields})
